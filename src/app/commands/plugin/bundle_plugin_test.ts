import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { messageOf } from "../../../base/mod.ts";
import { faultOf, loadCode } from "../../../plugin/mod.ts";
import { bundle } from "../../../source/mod.ts";
import { bundlePlugins } from "./bundle_plugin.ts";
import { checkPlugins } from "./check_plugin.ts";

const FILES = {
  "shop.ts": `import * as v from "valibot";
import { randomUUID } from "node:crypto";
import { twice } from "./node_modules/@team/tiny/index.js";

interface Options { readonly mark: string }

export default {
  name: "shop",
  api: 1 as const,
  phase: "filter" as const,
  config: v.strictObject({ mark: v.string() }),
  create(_host: unknown, { mark }: Options) {
    if (mark === "throws") throw new Error("from the author's line");
    return { about: twice(mark) + randomUUID().length };
  },
};
`,
  "node_modules/@team/tiny/package.json":
    '{"name":"@team/tiny","version":"1.2.3","license":"MIT","type":"module"}',
  "node_modules/@team/tiny/index.js": "export const twice = (text) => text + text;\n",
};

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "postern-bundle-"));
  try {
    for (const [name, text] of Object.entries(FILES)) {
      await mkdir(dirname(join(directory, name)), { recursive: true });
      await writeFile(join(directory, name), text);
    }
    await work(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

test("a bundle is one file that needs neither its sources nor their packages", async () => {
  await inDirectory(async (directory) => {
    const file = join(directory, "shop.bundle");
    const said: string[] = [];
    assert.equal(await bundlePlugins([join(directory, "shop.ts")], (text) => said.push(text)), 0);
    const moved = join(directory, "elsewhere.bundle");
    await writeFile(moved, await readFile(file));
    await rm(join(directory, "node_modules"), { recursive: true });
    await rm(join(directory, "shop.ts"));

    const code = await bundle(moved);
    assert.match(
      said.join(""),
      new RegExp(`plugin shop, phase filter, 1 package inside\n.*"sha256": "${code.digest}"`),
    );
    assert.match(said.join(""), /"allow": \["node:crypto"\]/);
    assert.deepEqual(code.libraries, ["valibot"]);
    const part = { ...code, path: moved };
    await assert.rejects(loadCode(part, []), /it imports node:crypto, which it may not/);
    const plugin = await loadCode(part, ["node:crypto"]);
    const made = plugin.create({} as never, { mark: "a" }) as unknown as { about: string };
    assert.equal(made.about, "aa36");
    try {
      plugin.create({} as never, { mark: "throws" });
      assert.fail("it did not throw");
    } catch (error) {
      assert.match(faultOf(error), /shop\.ts:13:\d+: if \(mark === "throws"\) throw new Error/);
    }
    const { sbom } = JSON.parse(await readFile(moved, "utf8"));
    assert.equal(sbom.bomFormat, "CycloneDX");
    assert.deepEqual(sbom.components.map((one: { purl: string }) => one.purl), [
      "pkg:npm/%40team/tiny@1.2.3",
    ]);
    const checked: string[] = [];
    assert.equal(await checkPlugins([moved], (text) => checked.push(text)), 0);
    assert.match(checked.join(""), /elsewhere\.bundle: ok\n +plugin shop, phase filter\n/);
  });
});

for (
  const [name, content, reason] of [
    ["is something else", "export default {};", /no bundle: write it with "postern plugin bundle"/],
    ["is cut short", '{"postern":"plugin bundle","for', /no bundle: write it with/],
    ["lacks a part", '{"postern":"plugin bundle","format":1}', /no bundle: \w+ is missing/],
    [
      "comes from a later version",
      '{"postern":"plugin bundle","format":2}',
      /has the format 2, and this executable reads format 1/,
    ],
  ] as const
) {
  test(`a bundle that ${name} is refused by name`, async () => {
    await inDirectory(async (directory) => {
      const path = join(directory, "bad.bundle");
      await writeFile(path, content);
      const message = await bundle(path).then(() => "taken", messageOf);
      assert.match(message, reason);
      assert.match(message, /bad\.bundle/);
    });
  });
}

test("plugin bundle reports what cannot be bundled, writes nothing for it, and exits with 1", async () => {
  await inDirectory(async (directory) => {
    const bad = join(directory, "bad.ts");
    await writeFile(bad, "export default { name: 1 };\n");
    const said: string[] = [];
    const files = [bad, join(directory, "shop.ts"), join(directory, "shop.bundle")];
    assert.equal(await bundlePlugins(files, (text) => said.push(text)), 1);
    assert.match(
      said[0] ?? "",
      /^Cannot bundle .*bad\.ts: .*is for version undefined of the contract/,
    );
    assert.match(said[1] ?? "", /plugin shop/);
    assert.match(said[2] ?? "", /^Cannot bundle .*shop\.bundle: it is a bundle already/);
    await assert.rejects(readFile(join(directory, "bad.bundle")));
  });
});
