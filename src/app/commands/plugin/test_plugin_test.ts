import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../../../test/kit/clock/clock.ts";
import { settle } from "../../../kit/mod.ts";
import { TEST_LIMIT_MS, type TestOutcome, testPlugins, Tests } from "./test_plugin.ts";

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

async function run(tests: string, name = "odd.ts") {
  const directory = await mkdtemp(join(tmpdir(), "postern-test-"));
  await writeFile(join(directory, "odd.ts"), PLUGIN);
  await writeFile(join(directory, "odd_test.ts"), HEAD + tests);
  let output = "";
  const path = join(directory, name);
  const code = await testPlugins([path], (text) => output += text).finally(() =>
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
      "gives options",
      'test("a", { skip: true }, () => {});',
      /cannot be run\n.*options are not known/,
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
  const over = tests.run(clock, { onOutcome: (one) => outcomes.push(one), stray: () => () => {} });
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
  await tests.run(new FakeClock(), {
    onOutcome: (one) => outcomes.push(one),
    stray: (failed) => {
      fail = failed;
      return () => quiet++;
    },
  });
  assert.equal(String(outcomes[0]?.thrown?.error), "Error: stray");
  assert.equal(quiet, 1);
});
