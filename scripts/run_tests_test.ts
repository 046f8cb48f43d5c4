import test from "node:test";
import assert from "node:assert/strict";
import { countJunit, parseOptions } from "./run_tests.ts";

const DENO = `<testsuites><testsuite name="a" tests="4">
<testcase name="one" classname="a" time="0.002">
</testcase>
<testcase name="two &gt; bad" classname="a"><failure message="1 !== 2">x</failure></testcase>
<testcase name="odd > name" classname="a">
</testcase>
<testcase name="left out"><skipped/></testcase></testsuite></testsuites>`;
const BUN = `<testsuites><testsuite name="a">
<testcase name="one" classname="" time="0" assertions="0" />
<testcase name="two"><failure type="AssertionError" message="a /&gt; b">x</failure></testcase>
<testcase name="three"><skipped /></testcase>
<testcase name="four" /></testsuite></testsuites>`;

for (
  const [name, xml, want] of [
    ["a Deno report", DENO, { passed: 2, failures: ["two > bad", "left out (skipped)"] }],
    ["a Bun report", BUN, { passed: 2, failures: ["two", "three (skipped)"] }],
    ["no report", "", { passed: 0, failures: [] }],
  ] as const
) {
  test(`countJunit() counts ${name}, a skipped test as failed`, () => {
    const counts = countJunit(xml);
    assert.deepEqual({ passed: counts.passed, failures: counts.failures }, want);
    assert.equal(counts.failed, want.failures.length);
  });
}

test("parseOptions() reads engines, jobs, time limit and paths", () => {
  assert.deepEqual(parseOptions(["--engine", "both", "src", "--each", "2", "--timeout", "9"]), {
    engines: ["deno", "bun"],
    jobs: 2,
    timeoutMs: 9000,
    paths: ["src"],
  });
});

for (const args of [[], ["--engine", "node", "src"], ["--each", "0", "src"], ["--bogus", "1"]]) {
  test(`parseOptions() refuses "${args.join(" ")}"`, () => assert.throws(() => parseOptions(args)));
}
