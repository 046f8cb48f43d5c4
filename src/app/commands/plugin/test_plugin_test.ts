import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../../../test/kit/clock/clock.ts";
import { settle } from "../../../kit/mod.ts";
import { TEST_LIMIT_MS, type TestOutcome, Tests } from "./declared_tests.ts";
import { type TestPluginOptions, testPlugins } from "./test_plugin.ts";

const PLUGIN = `import * as v from "valibot";
interface Unused {}
export default {
  name: "odd", api: 1, phase: "filter", config: v.strictObject({}),
  create: () => ({
    onRequest({ request }, next) {
      if (request.path === "/odd") throw new Error("how odd");
      return next();
    },
  }),
};
`;
const HEAD = `import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { mount, status } from "postern/kit";
import { base64url } from "jose";
import odd from "./odd.ts";
`;

async function run(tests: string, name = "odd.ts", options: TestPluginOptions = {}) {
  const directory = await mkdtemp(join(tmpdir(), "postern-test-"));
  await writeFile(join(directory, "odd.ts"), PLUGIN);
  await writeFile(join(directory, "odd_test.ts"), HEAD + tests);
  let output = "";
  const path = join(directory, name);
  const code = await testPlugins([path], (text) => output += text, options).finally(() =>
    rm(directory, { recursive: true })
  );
  return { code, output: output.replaceAll(directory, "DIR").replaceAll(/\d+ ms/g, "N ms") };
}

const PASSES = `
describe("odd", () => test("passes", async () => {
  await using it = await mount(odd, { upstream: [status(201)] });
  assert.equal((await it.request()).status, 201);
  assert.equal(base64url.encode("a"), "YQ");
}));
`;
for (const name of ["odd.ts", "odd_test.ts", "."]) {
  test(`testPlugins() finds the tests of ${name} and runs them with the kit and the libraries`, async () => {
    const { code, output } = await run(PASSES, name);
    assert.equal(
      output,
      "DIR/odd_test.ts\n  ok      odd > passes (N ms)\n\n1 passed, 0 failed (N ms)\n",
    );
    assert.equal(code, 0);
  });
}

test("testPlugins() shows the place and line of a failure, and the plugin's log", async () => {
  const { code, output } = await run(`${PASSES}
test("fails", async () => {
  await using it = await mount(odd);
  assert.equal((await it.request({ path: "/odd" })).status, 200);
});
`);
  assert.equal(code, 1);
  for (
    const wanted of [
      /^ {2}failed {2}fails \(N ms\)\n(?: {10}.*\n|\n)* {10}500 !== 200\n {10}at DIR\/odd_test\.ts:15:\d+\n {13}assert\.equal\(\(await it/m,
      /\[WARN\] {2}plugin failed plugin=odd .* hook=onRequest .*DIR\/odd\.ts:7:\d+: if \(request\.path/,
      /\n\n1 passed, 1 failed \(N ms\)\n$/,
    ]
  ) assert.match(output, wanted);
});

for (
  const [name, tests, wanted] of [
    ["declares none", "", /no test is declared there\n\n0 passed, 0 failed/],
    [
      "gives an option that is not known",
      'test("a", { concurrency: 2 }, () => {});',
      /cannot be run\n.*"a" has the option concurrency, which is not one of skip, todo, only, timeout/,
    ],
    [
      "takes a callback",
      'test("a", (t, done) => done());',
      /cannot be run\n.*"a" takes a callback; return a promise/,
    ],
    [
      "mocks",
      'import { mock } from "node:test";\nmock.fn();',
      /cannot be run\n.*mock.fn is not known here; mount\(\) takes/,
    ],
    [
      "fails outside of tests",
      'throw new Error("at once");',
      /cannot be run\n.*at once\n.*:6:\d+\n/,
    ],
    [
      "imports a module that is not provided",
      'import { dlopen } from "bun:ffi";\ndlopen();',
      /cannot be run\n/,
    ],
  ] as const
) {
  test(`testPlugins() counts a file that ${name} as failed`, async () => {
    const { code, output } = await run(tests);
    assert.match(output, wanted);
    assert.equal(code, 1);
  });
}

/** As values: the runner refuses a test file with a test that may not run. */
const [SKIP, TODO] = ["skip", "todo"];

test("testPlugins() has the hooks, subtests and options of node:test", async () => {
  const { code, output } = await run(`
import { after, afterEach, before, beforeEach } from "node:test";
const seen = [];
const note = (what) => () => void seen.push(what);
describe("group", () => {
  before(note("before"));
  beforeEach(note("each"));
  afterEach(note("over"));
  after(note("after"));
  test("one", (t) => {
    t.after(note("own"));
    t.diagnostic("a line");
    note(t.name)();
  });
  describe("inner", () => {
    beforeEach(note("inner"));
    test("two", async (t) => {
      await t.test("sub", (t) => note(t.fullName)());
      await t.test("left out", { ${SKIP}: "no need" }, () => {});
    });
  });
  test.${SKIP}("three", () => assert.fail());
  test("four", (t) => t.${SKIP}("not here"));
});
test.${TODO}("five", () => assert.fail());
test("six", { ${TODO}: true });
test("seven", () => assert.deepEqual(seen, ["before", "each", "one", "own", "over", "each", "inner",
  "group > inner > two > sub", "over", "each", "over", "after"]));
`);
  assert.equal(
    output,
    `DIR/odd_test.ts
  ok      group > one (N ms)
          a line
  ok      group > inner > two > sub (N ms)
  skipped group > inner > two > left out
          no need
  ok      group > inner > two (N ms)
  skipped group > three
  skipped group > four
          not here
  todo    five
  todo    six
  ok      seven (N ms)

4 passed, 0 failed, 5 skipped (N ms)
`,
  );
  assert.equal(code, 0);
});

test("testPlugins() fails a test whose subtest or hook fails", async () => {
  const { code, output } = await run(`
import { beforeEach } from "node:test";
test("outer", async (t) => { await t.test("inner", () => assert.equal(1, 2)); });
describe("hooked", () => {
  beforeEach(() => { throw new Error("no set-up"); });
  test("never begins", () => {});
});
`);
  assert.equal(code, 1);
  assert.match(
    output,
    /failed {2}outer > inner .*\n[^]*failed {2}outer .*\n *1 of 1 subtests failed/,
  );
  assert.match(output, /failed {2}hooked > never begins .*\n *no set-up/);
  assert.match(output, /\n0 passed, 3 failed/);
});

for (
  const [what, tests, only, wanted] of [
    ["by their name", 'test("ab", () => {});\ntest("c", () => assert.fail());', "b", /ok {6}ab/],
    ["marked so", 'test.only("ab", () => {});\ntest("c", () => assert.fail());', undefined, /ab/],
  ] as const
) {
  test(`testPlugins() runs only tests ${what}`, async () => {
    const { code, output } = await run(tests, "odd.ts", { only });
    assert.match(output, wanted);
    assert.match(output, /\n1 passed, 0 failed \(/);
    assert.equal(code, 0);
  });
}

test("testPlugins() says that no test has the wanted name", async () => {
  const { code, output } = await run(PASSES, "odd.ts", { only: "other" });
  assert.match(output, /no test has "other" in its name/);
  assert.equal(code, 1);
});

test("testPlugins() rejects a path without tests", async () => {
  await assert.rejects(testPlugins(["nowhere.ts"], () => {}), /nowhere\.ts: there is no such file/);
  const here = import.meta.dirname ?? "";
  const beside = join(here, "type_files.ts");
  await assert.rejects(
    testPlugins([beside], () => {}),
    /there is no type_files_test\.ts beside it/,
  );
  await assert.rejects(testPlugins([join(here, "..", "..")], () => {}), /ends in _test\.ts/);
});

test("Tests.run() fails a test that does not end in time, and runs the next one", async () => {
  const clock = new FakeClock();
  const tests = new Tests();
  tests.module.test("hangs", () => new Promise(() => {}));
  tests.module.test("passes", () => {});
  const outcomes: TestOutcome[] = [];
  const over = tests.run({ clock, onOutcome: (one) => outcomes.push(one), stray: () => () => {} });
  await settle();
  assert.equal(outcomes.length, 0);
  await clock.advance(TEST_LIMIT_MS);
  await over;
  assert.deepEqual(outcomes.map(({ name, thrown }) => [name, String(thrown?.error)]), [
    ["hangs", "Error: not done after 10 s"],
    ["passes", "undefined"],
  ]);
  assert.throws(() => tests.module.it("late", () => {}), /declared while tests run/);
});

test("Tests.run() fails a test when an unhandled error occurs while it runs", async () => {
  const tests = new Tests();
  let fail = (_error: unknown) => {};
  tests.module.test("strays", () => {
    fail(new Error("stray"));
    return new Promise(() => {});
  });
  const outcomes: TestOutcome[] = [];
  let quiet = 0;
  await tests.run({
    clock: new FakeClock(),
    onOutcome: (one) => outcomes.push(one),
    stray: (failed) => {
      fail = failed;
      return () => quiet++;
    },
  });
  assert.equal(String(outcomes[0]?.thrown?.error), "Error: stray");
  assert.equal(quiet, 1);
});
