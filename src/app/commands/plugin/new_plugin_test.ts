import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { newPlugin } from "./new_plugin.ts";
import { testPlugins } from "./test_plugin.ts";

async function inDirectory(body: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "postern-new-"));
  await body(directory).finally(() => rm(directory, { recursive: true }));
}

test("newPlugin() writes a plugin whose tests pass, with the types that it imports", async () => {
  await inDirectory(async (directory) => {
    let output = "";
    const write = (text: string) => output += text;
    assert.equal(await newPlugin("shop_rules", write, directory), 0);
    assert.deepEqual((await readdir(join(directory, "shop_rules"))).sort(), [
      "README.md",
      "shop_rules.ts",
      "shop_rules_test.ts",
      "tsconfig.json",
      "types",
    ]);
    const types = await readdir(join(directory, "shop_rules/types"));
    assert.deepEqual(types.sort(), [
      "jose",
      "node.d.ts",
      "postern.d.ts",
      "postern_kit.d.ts",
      "valibot.d.ts",
    ]);
    assert.match(output, /^Wrote shop_rules\/\n[^]*\n {4}postern plugin test shop_rules\.ts .*\n/);
    const code = await testPlugins([join(directory, "shop_rules/shop_rules.ts")], write);
    assert.equal(code, 0, output);
  });
});

test("newPlugin() does not overwrite files, and refuses a bad name", async () => {
  await inDirectory(async (directory) => {
    await mkdir(join(directory, "shop"));
    await writeFile(join(directory, "file"), "");
    const make = (name: string) => newPlugin(name, () => {}, directory);
    for (const name of ["shop", "file"]) await assert.rejects(make(name), /there is one already$/);
    for (const name of ["Shop", "../shop", "a-b", ""]) {
      await assert.rejects(make(name), /^ProxyError: Cannot call a plugin ".*": want snake_case/);
    }
    assert.deepEqual(await readdir(directory, { recursive: true }), ["file", "shop"].sort());
  });
});
