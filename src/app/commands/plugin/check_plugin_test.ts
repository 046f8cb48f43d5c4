import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { checkPlugins } from "./check_plugin.ts";
import { newPlugin } from "./new_plugin.ts";

/** `names`: the files to check. */
async function check(files: Readonly<Record<string, string>>, names = ["odd.ts"]) {
  const directory = await mkdtemp(join(tmpdir(), "postern-check-"));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  let output = "";
  const paths = names.map((name) => join(directory, name));
  const code = await checkPlugins(paths, (text) => output += text)
    .finally(() => rm(directory, { recursive: true }));
  return { code, output: output.replaceAll(directory, "DIR") };
}

/** Its hook begins on line 11. */
function plugin(hook: string, { imports = "", api = "1", schema = "v.strictObject({})" } = {}) {
  return `import * as v from "valibot";
import type { Plugin, PluginDefinition } from "postern";
${imports}
const Config = ${schema};
const definition = {
  name: "odd",
  api: ${api},
  phase: "filter",
  config: Config,
  create(host): Plugin {
    ${hook}
  },
} satisfies PluginDefinition<typeof Config>;
export default definition;
`;
}
const PASSES = "return { onRequest: (_, next) => next() };";

test("checkPlugins() accepts a new plugin and its tests", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-check-"));
  let output = "";
  try {
    await newPlugin("shop", () => {}, directory);
    const path = join(directory, "shop/shop.ts");
    assert.equal(await checkPlugins([path], (text) => output += text), 0, output);
  } finally {
    await rm(directory, { recursive: true });
  }
  assert.match(
    output,
    /shop\.ts: ok\n {4}plugin shop, phase filter\n {4}"sha256": "[0-9a-f]{64}" pins/,
  );
});

test("checkPlugins() reports type errors by file, line and column, also in imports and tests", async () => {
  const { code, output } = await check({
    "odd.ts": plugin(
      "return { onRequest: ({ request }, next) => next({ request: mark(request.pth) }) };",
      { imports: 'import { mark } from "./rules/mark.ts";' },
    ),
    "rules/mark.ts": "export const mark = (path: string): string => path.lenght;\n",
    "odd_test.ts": `import { mount } from "postern/kit";
import odd from "./odd.ts";
await mount(odd, { upstreams: [] });
`,
  });
  assert.equal(code, 1);
  assert.match(output, /DIR\/odd\.ts:11:55: Type 'string' is not assignable to type 'HttpRequest'/);
  assert.match(
    output,
    /DIR\/odd\.ts:11:77: Property 'pth' does not exist .* Did you mean 'path'\?\n {4}return \{ onRequest: .*\n +~~~\n/,
  );
  assert.match(output, /DIR\/rules\/mark\.ts:1:52: Property 'lenght'/);
  assert.match(output, /DIR\/odd_test\.ts:3:20: .*'upstreams' does not exist/);
  assert.match(output, /\n\n4 faults\n$/);
});

test("checkPlugins() lists the modules of Node that need `allow`", async () => {
  const imports = 'import { hash } from "node:crypto";\nimport { deep } from "./deep.ts";';
  const { code, output } = await check({
    "odd.ts": plugin(`hash("md5", deep); ${PASSES}`, { imports }),
    "deep.ts":
      'import { readFileSync } from "node:fs";\nexport const deep: string = readFileSync("/a", "utf8");\n'
        .replace('readFileSync("/a", "utf8")', "String(readFileSync)"),
  });
  assert.equal(code, 0, output);
  assert.match(output, /needs "allow": \["node:crypto", "node:fs"\] beside its "use"/);
});

const REFUSED = {
  "contract.ts": [plugin(PASSES, { api: "2" }), /is for version 2 of the contract; this is 1/],
  "no_schema.ts": [plugin(PASSES, { schema: "{}" }), /has no schema at config/],
  "throws.ts": [
    "const odd: string[] = [];\nexport default odd[0]!.length;\n",
    /^DIR\/throws\.ts: .* \(DIR\/throws\.ts:2:\d+: export default odd\[0\]!\.length;\)$/m,
  ],
  "type_as_value.ts": [
    plugin(PASSES, { imports: 'import { Phase } from "postern";' }),
    /:3:10: 'Phase' is a type and must be imported using a type-only import/,
  ],
  "kit.ts": [
    plugin(`ok(); ${PASSES}`, { imports: 'import { ok } from "postern/kit";' }),
    /kit\.ts imports postern\/kit, which is there for tests only/,
  ],
  "nowhere.ts": [
    plugin(`odd(); ${PASSES}`, { imports: 'import odd from "odd";' }),
    /:3:17: Cannot find module 'odd'/,
  ],
  "no_plugin.ts": ["export const a = 1;\n", /no_plugin\.ts: its default export is no object/],
} as const;

test("checkPlugins() refuses a wrong definition, and code without types", async () => {
  const files = Object.fromEntries(Object.entries(REFUSED).map(([name, [text]]) => [name, text]));
  const { code, output } = await check(files, [...Object.keys(files), "gone.ts"]);
  assert.equal(code, 1);
  for (const [, wanted] of Object.values(REFUSED)) assert.match(output, wanted);
  assert.match(output, /^Cannot read DIR\/gone\.ts: there is no such file$/m);
});

test("checkPlugins() reports a file that cannot be parsed once", async () => {
  const { code, output } = await check({ "odd.ts": plugin("return {;") });
  assert.equal(code, 1);
  assert.match(
    output,
    /^DIR\/odd\.ts:11:13: .*\n.*\n.*\n(?:DIR\/odd\.ts:1[2-9]:.*\n.*\n.*\n)*\n\d+ faults?\n$/,
  );
});
