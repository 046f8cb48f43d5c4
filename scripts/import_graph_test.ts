import assert from "node:assert/strict";
import { test } from "node:test";
import { checkLayers } from "./check_layers.ts";
import { circles, importGraph, workerProblems } from "./import_graph.ts";
import { importsOf } from "./source_text.ts";

const graph = (files: Readonly<Record<string, string>>) =>
  importGraph(Object.entries(files).map(([path, text]) => ({ path, text })));

for (
  const [name, text, want] of [
    ["lets what both need", `import { x } from "../../base/mod.ts";`],
    ["lets Node's own modules", `import fs from "node:fs";`],
    ["lets a type of the main thread", `import type { X } from "../../source/mod.ts";`],
    ["lets a type be passed on", `export type { X } from "../../source/mod.ts";`],
    ["refuses a source", `import { x } from "../../source/mod.ts";`, "src/source/mod.ts"],
    [
      "refuses a type in a value's braces",
      `import { type X } from "../../consul/mod.ts";`,
      "consul",
    ],
    ["refuses what is passed on", `export * from "../../secrets/mod.ts";`, "src/secrets/mod.ts"],
    [
      "refuses one after a type",
      `import type { X } from "./x.ts";\nimport "../../dev/a.ts";`,
      "dev",
    ],
    ["refuses one loaded later", `await import("../../admin/mod.ts");`, "src/admin/mod.ts"],
    ["refuses a package", `import * as v from "valibot";`, "valibot"],
    ["refuses a package at its start", `import { RE2JS } from "re2js";`, "re2js"],
    ["lets regexes be loaded when needed", `await import("re2js");`],
  ] as [string, string, string?][]
) {
  test(`workerProblems() ${name}`, () => {
    const problems = workerProblems(graph({ "src/app/workers/worker.ts": text }));
    assert.equal(problems.length, want === undefined ? 0 : 1, problems.join());
    assert.ok(want === undefined || problems[0]?.includes(want), problems.join());
  });
}

test("workerProblems() follows imports and gives their chain, each file once", () => {
  const files = {
    "src/app/workers/worker.ts": `import "../../proxy/mod.ts";\nimport "./log.ts";`,
    "src/app/workers/log.ts": `import "../../proxy/mod.ts";`,
    "src/proxy/mod.ts": `export * from "./trust.ts";`,
    "src/proxy/trust.ts": `\nimport { judgeName } from "../secrets/mod.ts";`,
    "src/proxy/other.ts": `import "valibot";`,
    "src/proxy/trust_test.ts": `import "valibot";`,
  };
  assert.deepEqual(workerProblems(graph(files)), [
    'src/proxy/trust.ts:2: a data worker would load "src/secrets/mod.ts" ' +
    "(worker.ts > proxy/mod.ts > proxy/trust.ts)",
  ]);
});

for (
  const [name, files, want] of [
    ["finds none in a tree", { a: ["b", "c"], b: ["d"], c: ["d"], d: [] }, []],
    ["finds two files", { a: ["b"], b: ["a"] }, [["a", "b"]]],
    ["finds a long one", { a: ["b"], b: ["c"], c: ["b"], d: ["a"] }, [["b", "c"]]],
    ["finds several", { a: ["b"], b: ["a", "c"], c: ["d"], d: ["c"] }, [["c", "d"], ["a", "b"]]],
    ["joins those that share a file", { a: ["b", "c"], b: ["a"], c: ["a"] }, [["a", "b", "c"]]],
  ] as [string, Record<string, string[]>, string[][]][]
) {
  test(`circles() ${name}`, () => {
    const sources = Object.entries(files).map(([path, to]) => [
      `src/net/${path}.ts`,
      to.map((name) => `import type { X } from "./${name}.ts";\n`).join(""),
    ]);
    const found = circles(graph(Object.fromEntries(sources)));
    assert.deepEqual(found, want.map((circle) => circle.map((path) => `src/net/${path}.ts`)));
  });
}

test("checkLayers() refuses a circle and a module that a worker must not load", () => {
  const { problems } = checkLayers([
    { path: "src/app/workers/worker.ts", text: `import { x } from "../../dev/mod.ts";` },
    { path: "src/net/a.ts", text: `import { x } from "./b.ts";` },
    { path: "src/net/b.ts", text: `import { x } from "./a.ts";` },
  ]);
  assert.equal(problems.length, 2, problems.join());
  assert.match(problems[0] ?? "", /a data worker would load/);
  assert.match(problems[1] ?? "", /^src\/net\/a.ts, src\/net\/b.ts: import each other/);
});

for (
  const [text, want] of [
    [`import x from "a";`, "value"],
    [`import "a";`, "value"],
    [`export * from "a";`, "value"],
    [`import { type X } from "a";`, "value"],
    [`import type { X } from "a";`, "type"],
    [`import type * as x from "a";`, "type"],
    [`import type X from "a";`, "type"],
    [`export type {\n  X,\n  Y,\n} from "a";`, "type"],
    [`type X = 1;\nimport { y } from "a";`, "value"],
    [`const x = await import("a");`, "dynamic"],
  ] as const
) {
  test(`importsOf() returns the kind of ${JSON.stringify(text)}`, () => {
    assert.deepEqual(importsOf(text).map(({ kind }) => kind), [want]);
  });
}
