import test from "node:test";
import assert from "node:assert/strict";
import { parseOptions } from "./run_tests.ts";
import { leftForLong, readJunit, showFailure, skips, unfinished } from "./tests/report.ts";
import { suitesOf } from "./tests/suites.ts";

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
      passed: ["one", "odd > name"],
      failures: [
        { name: "two > bad", text: "Uncaught <x>\nagain" },
        { name: "left out (skipped)", text: "" },
      ],
    }],
    ["a Bun report", BUN, {
      passed: ["one", "four"],
      failures: [{ name: "two", text: 'one\n"two"' }, { name: "three (skipped)", text: "" }],
    }],
    ["no report", "", { passed: [], failures: [] }],
  ] as const
) {
  test(`readJunit() reads ${name}, a skipped test as failed`, () => {
    assert.deepEqual(readJunit(xml), want);
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
  assert.deepEqual(parseOptions(["--engine", "both", "src", "--jobs", "2", "--timeout", "9"]), {
    engines: ["deno", "bun"],
    jobs: 2,
    timeoutMs: 9000,
    paths: ["src"],
  });
});

for (const args of [[], ["--engine", "node", "src"], ["--jobs", "0", "src"], ["--bogus", "1"]]) {
  test(`parseOptions() refuses "${args.join(" ")}"`, () => assert.throws(() => parseOptions(args)));
}

const DENO_OUTPUT = `running 3 tests from ./a_test.ts
one ... ok (2ms)
two ...
------- output -------
three ... of what it prints
----- output end -----
`;

for (
  const [name, output, want] of [
    ["none when all have ended", `${DENO_OUTPUT}two ... ok (1ms)\n`, undefined],
    ["the one that has only begun", DENO_OUTPUT, "two"],
    ["none in an output that names none", "(pass) one\n", undefined],
  ] as const
) {
  test(`unfinished() finds ${name}`, () => assert.equal(unfinished(output), want));
}

for (
  const [name, source, count] of [
    ["a test that skips itself", 'test("a", (t) => t.skip("no"));', 1],
    ["an option", 'test("a", { skip: true }, () => {});', 1],
    ["a test for later", 'test.todo("a");', 1],
    ["a way out by the machine", 'if (process.platform !== "linux") return;', 1],
    ["a way out by the engine", 'if (!("Deno" in globalThis)) return t.pass();', 1],
    ["no narrowing of a kind", 'if (read.kind !== "valid") return;', 0],
    ["no test of one engine", "if (onBun) test(name, story);", 0],
    ["no skipping of bytes", "reader.skipped(3);", 0],
  ] as const
) {
  test(`skips() sees ${name}`, () => assert.equal(skips(source).length, count));
}

test("leftForLong() reads the rounds that were left, a line each", () => {
  const output = "x\nleft for test:long: 1,000 rotations\nleft for test:long: b\n";
  assert.deepEqual(leftForLong(output), ["1,000 rotations", "b"]);
});

test("suitesOf() makes a suite of each story and of each directory, in the order of the files", () => {
  const files = ["test/integration/a_test.ts", "test/integration/b_test.ts"];
  const units = ["src/a/x_test.ts", "src/a/y_test.ts"];
  const names = (engines: readonly ("bun" | "deno")[]) =>
    suitesOf([...files, ...units], () => engines).map(({ engine, name, files }) =>
      `${engine} ${name} ${files.length}`
    );
  assert.deepEqual(names(["bun"]), [
    "bun test/integration/a_test.ts 1",
    "bun test/integration/b_test.ts 1",
    "bun src/a 2",
  ]);
  assert.equal(names(["deno", "bun"])[1], "bun test/integration/a_test.ts 1");
});
