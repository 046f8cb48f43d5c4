import assert from "node:assert/strict";
import { test } from "node:test";
import { checkLayers } from "./check_layers.ts";
import { blankNonCode, importsOf } from "./source_text.ts";

for (
  const [name, path, text, want] of [
    [
      "lets a directory import one before it",
      "src/net/a.ts",
      `import { x } from "../base/mod.ts";`,
    ],
    ["lets a directory import itself freely", "src/net/a.ts", `import { x } from "./tls/b.ts";`],
    ["lets a part of a directory import it", "src/http/h1/a.ts", `import { x } from "../head.ts";`],
    ["lets a type through mod.ts", "src/chain/a.ts", `import type { X } from "../policy/mod.ts";`],
    ["lets main import app", "src/main.ts", `import { run } from "./app/mod.ts";`],
    ["lets app read the version", "src/app/v.ts", `import c from "../../deno.json" with {};`],
    ["refuses one after it", "src/base/a.ts", `import { x } from "../net/mod.ts";`, "comes after"],
    [
      "refuses a type of one after it",
      "src/chain/a.ts",
      `import type { X } from "../balance/mod.ts";`,
      "comes after",
    ],
    [
      "refuses an export from one after it",
      "src/base/a.ts",
      `export * from '../app/mod.ts';`,
      "comes after",
    ],
    [
      "refuses a dynamic import of one after it",
      "src/base/a.ts",
      `const m = await import( "../app/mod.ts" );`,
      "comes after",
    ],
    [
      "refuses a type import in place",
      "src/base/a.ts",
      `let x: import("../app/mod.ts").X;`,
      "comes after",
    ],
    [
      "refuses an import for effect",
      "src/base/a.ts",
      `import { x } from "../app/mod.ts";`,
      "comes after",
    ],
    ["refuses an import without a name", "src/base/a.ts", `import "./b.ts";`, "imports nothing"],
    [
      "refuses what is not mod.ts",
      "src/net/a.ts",
      `import { x } from "../base/clock.ts";`,
      "through its mod.ts",
    ],
    [
      "refuses a mod.ts further down",
      "src/proxy/a.ts",
      `import { x } from "../http/h1/mod.ts";`,
      "through its mod.ts",
    ],
    ["refuses main", "src/app/a.ts", `import { x } from "../main.ts";`, "comes after"],
    [
      "refuses what is outside src",
      "src/app/a.ts",
      `import { x } from "../../test/kit/clock/clock.ts";`,
      "outside src",
    ],
    [
      "refuses the version below app",
      "src/base/a.ts",
      `import c from "../../deno.json";`,
      "outside src",
    ],
    [
      "refuses a directory that is not listed",
      "src/util/a.ts",
      `import { x } from "../base/mod.ts";`,
      "not in the",
    ],
    ["refuses an unknown package", "src/app/a.ts", `import x from "lodash";`, "is not one of"],
    ["lets hono's parts", "src/admin/a.ts", `import { html } from "hono/html";`],
    [
      "refuses hono to other rooms",
      "src/app/a.ts",
      `import { Hono } from "hono";`,
      "only admin, dev",
    ],
    ["refuses valibot to proxy", "src/proxy/a.ts", `import * as v from "valibot";`, "only base"],
    ["refuses jose to secrets", "src/secrets/a.ts", `import { x } from "jose/jwt";`, "only plugin"],
    ["lets a floor import one before it", "src/dev/ca/a.ts", `import { x } from "../store.ts";`],
    [
      "refuses a floor after it",
      "src/dev/ca/a.ts",
      `import { x } from "../http/api.ts";`,
      "comes after",
    ],
    [
      "refuses a file above all floors",
      "src/dev/ca/a.ts",
      `import { x } from "../agent.ts";`,
      "above all",
    ],
    ["lets a file above all floors", "src/dev/agent.ts", `import { x } from "./demo/mesh.ts";`],
    [
      "refuses an unlisted floor",
      "src/dev/x/a.ts",
      `import { x } from "../json.ts";`,
      "list of floors",
    ],
    [
      "refuses one file a floor after it",
      "src/dev/json.ts",
      `import { x } from "./world.ts";`,
      "comes after",
    ],
    ["lets net use sockets", "src/net/node/node_engine.ts", `import net from "node:net";`],
    ["refuses sockets elsewhere", "src/proxy/a.ts", `import net from "node:net";`, "only net"],
    ["refuses TLS in proxy", "src/proxy/a.ts", `import tls from "node:tls";`, "only net"],
    ["lets admin speak HTTP", "src/admin/a.ts", `import http from "node:http";`],
    ["refuses HTTP in proxy", "src/proxy/a.ts", `import http from "node:http";`, "only admin"],
    ["refuses files in a pure one", "src/wire/a.ts", `import fs from "node:fs";`, "is pure"],
    ["lets a pure one hash", "src/identity/a.ts", `import { X509Certificate } from "node:crypto";`],
    ["lets net/bun.ts name its runtime", "src/net/bun/bun_engine.ts", `Bun.listen({});`],
    ["refuses a runtime elsewhere", "src/net/port.ts", `if (globalThis.Deno) x();`, "a runtime"],
    ["refuses a runtime in a template", "src/app/a.ts", "`v ${Bun.version}`;", "a runtime"],
    ["lets words name a runtime", "src/app/a.ts", "// Bun\nconst a = 'Deno', b = `Bun ${a} Deno`;"],
    ["refuses the console", "src/proxy/a.ts", `console.log("x");`, "console"],
    ["lets app use the console", "src/app/a.ts", `console.log("x");`],
    [
      "lets tests do anything",
      "src/base/a_test.ts",
      `import { x } from "../app/run.ts"; Deno.exit();`,
    ],
    [
      "lets a plugin import the contract",
      "plugins/cors/a.ts",
      `import { x } from "../../src/plugin/api.ts";`,
    ],
    [
      "lets a plugin import itself",
      "plugins/cors/a.ts",
      `import { x } from "./b.ts"; import "valibot";`,
    ],
    [
      "refuses other plugins",
      "plugins/cors/a.ts",
      `import { x } from "../retry/mod.ts";`,
      "its own folder",
    ],
    [
      "lets plugins share what tokens said",
      "plugins/rate_limit/a.ts",
      `import { x } from "../../src/plugin/verified_claims.ts";`,
    ],
    [
      "lets built_in import plugins",
      "src/built_in/a.ts",
      `import { x } from "../../plugins/cors/cors.ts";`,
    ],
    [
      "refuses plugins to others",
      "src/plugin/a.ts",
      `import { x } from "../../plugins/cors/cors.ts";`,
      "outside src",
    ],
    [
      "refuses it to examples",
      "plugins/examples/a.ts",
      `import { x } from "../../src/plugin/verified_claims.ts";`,
      "its own folder",
    ],
    [
      "refuses source to plugins",
      "plugins/cors/a.ts",
      `import { x } from "../../src/base/mod.ts";`,
      "its own folder",
    ],
    [
      "lets an example read files",
      "plugins/examples/a.ts",
      `import { x } from "node:fs/promises";`,
    ],
    [
      "refuses packages to plugins",
      "plugins/cors/a.ts",
      `import { x } from "node:fs";`,
      "a plugin may use",
    ],
    ["lets 500 lines", "src/base/a.ts", "x;\n".repeat(500)],
    ["refuses 501 lines", "src/base/a.ts", "x;\n".repeat(501), "501 lines"],
  ] as [string, string, string, string?][]
) {
  test(`checkLayers() ${name}`, () => {
    const { problems } = checkLayers([{ path, text }]);
    if (want === undefined) return assert.deepEqual(problems, []);
    assert.equal(problems.length, 1, problems.join("; "));
    assert.ok(problems[0]?.startsWith(path) && problems[0].includes(want), `${problems[0]}`);
  });
}

test("checkLayers() notices long files without failing", () => {
  const { problems, notices } = checkLayers([{ path: "src/base/a.ts", text: "x;\n".repeat(301) }]);
  assert.deepEqual(problems, []);
  assert.deepEqual(notices, ["src/base/a.ts: 301 lines, look for a second idea"]);
});

test("checkLayers() reports file and line of each of several problems", () => {
  const text =
    `// first\nimport { y } from "../app/mod.ts";\n\nDeno.exit();\nimport {\n  x,\n} from "lodash";\n`;
  assert.deepEqual(checkLayers([{ path: "src/net/a.ts", text }]).problems, [
    'src/net/a.ts:2: "net" may not import "app", which comes after it',
    'src/net/a.ts:7: package "lodash" is not one of hono, valibot, jose, re2js, yaml, typescript',
    "src/net/a.ts:4: names a runtime; only net/bun and net/node may",
  ]);
});

for (
  const [name, text, want] of [
    ["comments", "a; // b\n/* c\nd */ e;", "a;     \n    \n     e;"],
    ["strings, not their quotes", `f("a\\"b", 'c');`, `f("    ", ' ');`],
    ["templates, not their code", "`a${b + `c${d}` }e`;", "` ${b + ` ${d}` } `;"],
    ["braces inside a template's code", "`a${ {b: 1}.b }c`; d;", "` ${ {b: 1}.b } `; d;"],
    ["regular expressions", `x = /["'/]/g; "y";`, `x = /     /g; " ";`],
    ["no division", "a / b / c; d[0] / 2; f() / 3;", "a / b / c; d[0] / 2; f() / 3;"],
    ["an expression after return", `return /"/.test(x);`, `return / /.test(x);`],
    ["a comment that never ends", "a /* b", "a     "],
  ] as const
) {
  test(`blankNonCode() blanks ${name}`, () => assert.equal(blankNonCode(text), want));
}

test("importsOf() sees no imports in comments and strings", () => {
  const text = `// import "a";\nconst x = 'import "b"'; /* from "c" */ import d from "d";`;
  assert.deepEqual(importsOf(text), [{ specifier: "d", line: 2, kind: "value" }]);
});
