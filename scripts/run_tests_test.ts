import test from "node:test";
import assert from "node:assert/strict";
import { countJunit, parseOptions, showFailure } from "./run_tests.ts";

const DENO = `<testsuites><testsuite name="a" tests="4">
<testcase name="one" classname="a" time="0.002">
</testcase>
<testcase name="two &gt; bad" classname="a"><failure message="1 !== 2">Uncaught &lt;x&gt;
again</failure></testcase>
<testcase name="odd > name" classname="a">
</testcase>
<testcase name="left out"><skipped/></testcase></testsuite></testsuites>`;
const BUN = `<testsuites><testsuite name="a">
<testcase name="one" classname="" time="0" assertions="0" />
<testcase name="two"><failure type="AssertionError" message="a /&gt; b">one&#10;&quot;two&quot;&#10;</failure></testcase>
<testcase name="three"><skipped /></testcase>
<testcase name="four" /></testsuite></testsuites>`;

for (
  const [name, xml, want] of [
    ["a Deno report", DENO, {
      passed: 2,
      failures: [
        { name: "two > bad", text: "Uncaught <x>\nagain" },
        { name: "left out (skipped)", text: "" },
      ],
    }],
    ["a Bun report", BUN, {
      passed: 2,
      failures: [{ name: "two", text: 'one\n"two"' }, { name: "three (skipped)", text: "" }],
    }],
    ["no report", "", { passed: 0, failures: [] }],
  ] as const
) {
  test(`countJunit() counts ${name}, a skipped test as failed`, () => {
    const counts = countJunit(xml);
    assert.deepEqual({ passed: counts.passed, failures: counts.failures }, want);
    assert.equal(counts.failed, want.failures.length);
  });
}

test("showFailure() shows the beginning and the end of a long text, each line marked", () => {
  assert.equal(showFailure({ name: "one (skipped)", text: "" }), "  failed: one (skipped)");
  assert.equal(
    showFailure({ name: "two", text: "not so\nat line 1" }),
    "  failed: two\n  | not so\n  | at line 1",
  );
  const long = showFailure({ name: "three", text: `first\n${"x\n".repeat(9_000)}last` });
  assert.match(long, /^ {2}failed: three\n {2}\| first\n[^]*\n {2}\| \.\.\.\n[^]*\n {2}\| last$/);
  assert.ok(long.length < 16_000);
});

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
