import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import allowList from "./allow_list.ts";

const SHOP = "spiffe://11111111-2222-3333-4444-555555555555.consul/ns/default/dc/dc1/svc/shop";

test("allow_list admits the callers in the file, and follows its changes", async () => {
  const directory = await mkdtemp(join(tmpdir(), "allow-"));
  const file = join(directory, "allowed");
  await writeFile(file, `# The shop.\n\n  ${SHOP}\n`);
  {
    const config = { file, everySeconds: 1 };
    await using shop = await mount(allowList, { config, source: "shop" });
    await using web = await mount(allowList, { config, source: "web" });
    await using anonymous = await mount(allowList, { config, source: null });
    const may = async (it: typeof shop) => (await it.request()).failure?.code ?? "yes";
    /** Files are read in real time, not in that of the fake clock. */
    const heard = async (message: string) => {
      while (!shop.logs.some((line) => line.message === message)) await shop.clock.advance(1_000);
    };
    assert.deepEqual([await may(shop), await may(web), await may(anonymous)], [
      "yes",
      "plugin_denied",
      "plugin_denied",
    ]);
    await writeFile(file, SHOP.replace("shop", "other"));
    await heard("allow-list changed");
    assert.equal(await may(shop), "plugin_denied");
    await writeFile(file, "shop\n");
    await heard("task failed");
    assert.equal(await may(shop), "plugin_denied");
    await writeFile(file, SHOP);
    while (await may(shop) !== "yes") await shop.clock.advance(1_000);
  }
  await rm(directory, { recursive: true });
});

test("allow_list does not start without its file", async () => {
  const config = { file: "/nowhere/allowed" };
  await assert.rejects(mount(allowList, { config }), /create\(\): ENOENT/);
});
