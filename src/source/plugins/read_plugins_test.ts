import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { loadCode } from "../../plugin/code.ts";
import { type AnyPlugin, faultOf } from "../../plugin/mod.ts";
import { PluginReader } from "./read_plugins.ts";

const ON_BUN = "Bun" in globalThis;
const TWO_FILES = {
  "shop.ts": `import * as v from "valibot";
import { base64url } from "jose";
import { mark } from "./rules/mark.ts";
import type { Nobody } from "nowhere";
export default {
  name: "shop", api: 1, phase: "filter", config: v.strictObject({}),
  create: (): Nobody => ({ mark: base64url.encode(mark) }),
} satisfies { name: string; create(): Nobody };
`,
  "rules/mark.ts": 'export const mark: string = "fresh";\n',
};
type Files = Readonly<Record<string, string>>;
type Entry = Parameters<PluginReader["read"]>[0] extends infer List
  ? NonNullable<List> extends readonly (infer One)[] ? One : never
  : never;

interface Got {
  /** Message of the problem; `undefined`: there is none. */
  readonly message: string | undefined;
  readonly path: readonly unknown[];
  load(): Promise<AnyPlugin>;
}

async function read(files: Files, entry: Partial<Entry> = {}): Promise<Got> {
  await using folder = await folderOf(files);
  return await folder.read(entry);
}

interface Folder extends AsyncDisposable {
  write(files: Files): Promise<void>;
  read(entry?: Partial<Entry>): Promise<Got>;
}

async function folderOf(files: Files): Promise<Folder> {
  const directory = await mkdtemp(join(tmpdir(), "postern-plugins-"));
  const write = async (changed: Files) => {
    for (const [name, text] of Object.entries(changed)) {
      await mkdir(join(directory, name, ".."), { recursive: true });
      await writeFile(join(directory, name), text);
    }
  };
  await write(files);
  return {
    write,
    async read(entry = {}) {
      const reader = new PluginReader(directory);
      const use = { use: "./shop.ts", config: {}, onFailure: "refuse" as const, ...entry };
      const [taken] = await reader.read([use], ["plugins"]) ?? [];
      const [problem] = reader.problems;
      return {
        message: problem?.message.replaceAll(directory, "DIR"),
        path: problem?.path ?? [],
        load: async () => {
          const { code = "", allow = [] } = taken?.file ?? {};
          const content = reader.code[code];
          assert.ok(content, problem?.message ?? "no code");
          return await loadCode(content, allow);
        },
      };
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

test("a plugin of two files and a library runs when its files are gone", async () => {
  const definition = await (await read(TWO_FILES)).load();
  assert.equal(definition.name, "shop");
  assert.deepEqual(await definition.create({} as never, {}), { mark: "ZnJlc2g" });
  assert.equal(definition.config["~standard"].version, 1);
});

test("what the plugin imports is read anew with each reading, also what was not there", async () => {
  const { "shop.ts": shop } = TWO_FILES;
  await using folder = await folderOf({ "shop.ts": shop });
  assert.match((await folder.read()).message ?? "", /mark\.ts/);
  for (const mark of ["one", "two"]) {
    await folder.write({ "rules/mark.ts": `export const mark = "${mark}";` });
    const definition = await (await folder.read()).load();
    assert.deepEqual(await definition.create({} as never, {}), {
      mark: btoa(mark).replaceAll("=", ""),
    });
  }
});

test("the word import in a comment or a string imports nothing", async () => {
  const got = await read({
    "shop.ts": `/** May import only types; see import "./gone.ts". */
import type { Nobody } from "nowhere";
// import { gone } from "./gone.ts";
import * as v from "valibot"; /* export * from "./gone.ts" */
const GLOB = "src/**/*.ts"; const TEXT = 'import x from "./gone.ts"';
import { mark } from "./mark.ts";
export default {
  name: "shop", api: 1, phase: "filter", config: v.strictObject({}),
  create: (): Nobody => ({ mark, text: GLOB + TEXT }),
};
`,
    "mark.ts": 'export const mark = "fresh";',
  });
  assert.equal(got.message, undefined);
  const definition = await got.load();
  assert.deepEqual(await definition.create({} as never, {}), {
    mark: "fresh",
    text: 'src/**/*.tsimport x from "./gone.ts"',
  });
});

const ONE_FILE = {
  "shop.ts": `import * as v from "valibot";
export default { name: "shop", api: 1, phase: "filter", config: v.object({}), create: () => ({}) };
`,
};
const TWO_DIGESTS = Object.entries(TWO_FILES).sort().map(([path, text]) =>
  `${sha256(text)}  ${path}\n`
);
for (
  const [name, files, pin] of [
    ["one file", ONE_FILE, sha256(ONE_FILE["shop.ts"])],
    ["two files", TWO_FILES, sha256(TWO_DIGESTS.join(""))],
  ] as const
) {
  test(`a pin of ${name} holds, until one of them changes`, async () => {
    assert.equal((await read(files, { sha256: pin })).message, undefined);
    const [last = ""] = Object.keys(files).slice(-1);
    const changed: Files = { ...files, [last]: `${(files as Files)[last]}\n` };
    const { message, path } = await read(changed, { sha256: pin });
    assert.match(message ?? "", /^is not the digest of .\/shop.ts and what it imports, which is /);
    assert.deepEqual(path, ["plugins", 0, "sha256"]);
  });
}

const IMPORTS_FS = {
  "shop.ts": 'import { value } from "./deep.ts";\nexport default { value };\n',
  "deep.ts": 'import { readFileSync } from "node:fs";\nexport const value = readFileSync;\n',
};
for (
  const [name, files, wanted] of [
    ["imports a module of Node's", IMPORTS_FS, /deep\.ts imports node:fs, which it may not/],
    ["imports a module of the runtime's", {
      "shop.ts": 'import { dlopen } from "bun:ffi";\nexport default dlopen;\n',
    }, /DIR\/shop\.ts imports bun:ffi, which is neither in its folder nor one of/],
    ["names a folder", { "shop.ts/a": "" }, /Cannot read DIR\/shop\.ts: it is no file/],
    ["names a file that is not there", {}, /Cannot read DIR\/shop\.ts: there is no such file/],
    [
      "imports what is nowhere",
      { "shop.ts": 'import x from "nowhere";\nexport default x;\n' },
      /nowhere/,
    ],
    ["imports no code", {
      "shop.ts": 'import x from "./x.png";\nexport default x;\n',
      "x.png": "",
    }, /Cannot read DIR\/x\.png: it is neither/],
  ] as readonly (readonly [string, Files, RegExp])[]
) {
  test(`a plugin that ${name} is refused by name`, async () => {
    const { message } = await read(files);
    assert.match(message ?? "", wanted);
  });
}

test("allow lets a plugin import that module of Node's, and no other", async () => {
  const files = {
    "shop.ts": `import { createHash } from "node:crypto";
import * as v from "valibot";
const require = (0, eval)("typeof require");
export default {
  name: "shop", api: 1, phase: "filter", config: v.object({ require: v.literal(require) }),
  create: () => ({ digest: createHash("sha256").update("a").digest("hex") }),
};
`,
  };
  const definition = await (await read(files, { allow: ["node:crypto"] })).load();
  assert.deepEqual(await definition.create({} as never, {}), { digest: sha256("a") });
  assert.match((await read(files, { allow: ["node:fs"] })).message ?? "", /imports node:crypto/);
});

test("a syntax error names file, line and the line's text", async () => {
  const files = { ...TWO_FILES, "rules/mark.ts": "export const mark = {\n  a: 1,,\n};\n" };
  const got = await read(files);
  // Without a bundler the text is parsed where it runs.
  const reason = ON_BUN ? got.message ?? "" : await got.load().then(String, String);
  assert.match(reason, /rules\/mark\.ts:2:\d+/);
  assert.match(reason, /a: 1,,/);
});

test("an error has its place in the author's file, and quotes the line", async () => {
  const files = {
    "shop.ts": `// The first line.
import type { Nobody } from "nowhere";
import { mark } from "./rules/mark.ts";
interface Unused { a: number }
export default {
  name: "shop", api: 1, phase: "filter",
  config: { "~standard": { version: 1, validate() {} } },
  create: (): Nobody => mark(1),
};
`,
    "rules/mark.ts": `export type Mark = string;

export function mark(n: number): never {
  throw new RangeError("no mark " + n);
}
`,
  };
  await using folder = await folderOf(files);
  const definition = await (await folder.read()).load();
  const error = await Promise.try(() => definition.create({} as never, {})).catch((error) => error);
  assert.match(
    faultOf(error),
    /^no mark 1 \(\/.*\/rules\/mark\.ts:4:\d+: throw new RangeError\("no mark " \+ n\);\)$/,
  );
});

test("what is no plugin is refused with what it lacks", async () => {
  const got = await read({ "shop.ts": "export default { name: 'shop', api: 2 };\n" });
  await assert.rejects(
    got.load(),
    /its default export is for version 2 of the contract; this is 1/,
  );
});

if (ON_BUN) {
  test("a module that is a macro does not run while it is bundled", async () => {
    const { message } = await read({
      "shop.ts": 'import { x } from "./m.ts" with { type: "macro" };\nexport default x();\n',
      "m.ts": "export const x = () => { throw new Error('it ran'); };\n",
    });
    assert.match(message ?? "", /shop\.ts:2:\d+: Macros are disabled/);
  });
}
