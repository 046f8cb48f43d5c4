import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock.ts";
import { silentLog, Stats } from "../base/mod.ts";
import type { PluginCodePart, PluginUse } from "../snapshot/mod.ts";
import { Generations, type PluginsOf } from "./generations.ts";
import { SharedState } from "./shared_state.ts";

/** A file whose plugin has that name. */
function codeOf(path: string, name: string): PluginCodePart {
  const schema = `{ "~standard": { version: 1, validate: (value) => ({ value }) } }`;
  const definition =
    `{ name: "${name}", api: 1, phase: "filter", config: ${schema}, create: () => ({}) }`;
  return {
    ...{ version: 1, libraries: [], path, map: "" },
    text: `module.exports = { default: ${definition} };`,
  };
}

function useOf(code: string, listener: string): PluginUse {
  const at = `${listener}.plugins[0]`;
  return { plugin: `./${code}.ts`, file: { code, allow: [] }, config: {}, onFailure: "refuse", at };
}

const wantedOf = (uses: Readonly<Record<string, PluginUse>>): PluginsOf =>
  new Map(
    Object.entries(uses).map(([listener, use]) => [listener, {
      ...{ uses: [use], carriesBytes: false },
      routes: [{ route: { name: "default", service: "", match: null }, configs: {}, at: "" }],
    }]),
  );

test("Generations refuses two files that give their plugins one name, wherever they stand", async () => {
  const lender = { log: silentLog, stats: new Stats(), clock: new FakeClock(), random: () => 0 };
  const generations = new Generations({ ...lender, shared: new SharedState() });
  const pluginCode = {
    a: codeOf("/etc/a.ts", "shop"),
    b: codeOf("/etc/b.ts", "shop"),
    c: codeOf("/etc/c.ts", "compression"),
  };
  const prepare = (uses: Readonly<Record<string, PluginUse>>) =>
    generations.prepare(wantedOf(uses), { version: 1, pluginCode });
  const good = await prepare({ inbound: useOf("a", "inbound"), db: useOf("a", "db") });
  generations.publish(good);
  await assert.rejects(
    prepare({ inbound: useOf("a", "inbound"), db: useOf("b", "db") }),
    /^ProxyError: db\.plugins\[0\]\.use: \/etc\/b\.ts calls itself shop, and so does \/etc\/a\.ts$/,
  );
  const builtIn = { plugin: "compression", config: {}, onFailure: "refuse", at: "x" } as const;
  await assert.rejects(
    prepare({ inbound: useOf("c", "inbound"), db: builtIn }),
    /the executable calls itself compression, and so does \/etc\/c\.ts/,
  );
  assert.deepEqual(generations.views().map(({ listener }) => listener), ["inbound", "db"]);
  await generations.close();
});
