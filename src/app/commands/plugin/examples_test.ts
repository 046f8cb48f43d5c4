/** The examples, with the types and libraries of the executable alone. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { checkPlugins } from "./check_plugin.ts";
import { testPlugins } from "./test_plugin.ts";

const EXAMPLES = new URL("../../../../plugins/examples/", import.meta.url);

test("every example type-checks and passes its tests with the executable's types and libraries", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-examples-"));
  try {
    const names = (await readdir(EXAMPLES)).filter((name) => name.endsWith(".ts"));
    for (const name of names) {
      const text = (await readFile(new URL(name, EXAMPLES), "utf8"))
        .replaceAll('"../../src/plugin/api.ts"', '"postern"')
        .replaceAll('"../../src/kit/mod.ts"', '"postern/kit"');
      await writeFile(join(directory, name), text);
    }
    let output = "";
    const write = (text: string) => output += text;
    const plugins = names.filter((name) => !name.endsWith("_test.ts"));
    assert.equal(plugins.length, 7);
    const checked = await checkPlugins(plugins.map((name) => join(directory, name)), write);
    assert.equal(checked, 0, output);
    assert.match(output, /allow_list\.ts: ok\n.*\n.*needs "allow": \["node:fs\/promises"\]/);
    assert.equal(await testPlugins([directory], write), 0, output);
  } finally {
    await rm(directory, { recursive: true });
  }
});
