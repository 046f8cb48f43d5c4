import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { loadBuiltIn } from "../built_in/mod.ts";
import { createLog, type LogRecord, silentLog, Stats } from "../base/mod.ts";
import type { PluginCodePart, PluginUse } from "../snapshot/mod.ts";
import { Generations, type PluginsOf } from "./generations.ts";
import { SharedState } from "./shared_state.ts";

/** A file whose plugin has that name and that code in `create`. */
function codeOf(path: string, name: string, create = ""): PluginCodePart {
  const schema = `{ "~standard": { version: 1, validate: (value) => ({ value }) } }`;
  const definition =
    `{ name: "${name}", api: 1, phase: "filter", config: ${schema}, create() { ${create}; return {}; } }`;
  return {
    version: 1,
    libraries: [],
    path,
    map: "",
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
      uses: [use],
      carriesBytes: false,
      routes: [{ route: { name: "default", service: "", match: null }, configs: {}, at: "" }],
    }]),
  );

test("Generations refuses two files whose plugins have one name, on any listeners", async () => {
  const lender = { log: silentLog, stats: new Stats(), clock: new FakeClock(), random: () => 0 };
  const generations = new Generations({ ...lender, shared: new SharedState() }, loadBuiltIn);
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
    /^ProxyError: db\.plugins\[0\]: \/etc\/b\.ts has the name shop, and so has \/etc\/a\.ts; write "as"$/,
  );
  const builtIn = { plugin: "compression", config: {}, onFailure: "refuse", at: "x" } as const;
  await assert.rejects(
    prepare({ inbound: useOf("c", "inbound"), db: builtIn }),
    /the executable has the name compression, and so has \/etc\/c\.ts/,
  );
  assert.deepEqual(generations.views().map(({ listener }) => listener), ["inbound", "db"]);
  await generations.close();
});

test("Generations has the same plugin twice under two names, and stops the timers of both", async () => {
  const lender = { log: silentLog, stats: new Stats(), clock: new FakeClock(), random: () => 0 };
  const generations = new Generations({ ...lender, shared: new SharedState() }, loadBuiltIn);
  const pluginCode = { a: codeOf("/etc/a.ts", "shop", "setTimeout(() => {}, 1e8)") };
  const inbound = useOf("a", "inbound");
  const twice = (second: PluginUse): PluginsOf => {
    const [[name, plugins] = assert.fail()] = wantedOf({ inbound });
    return new Map([[name, { ...plugins, uses: [inbound, second] }]]);
  };
  await assert.rejects(
    generations.prepare(twice(inbound), { version: 1, pluginCode }),
    /shop is there already; write "as" for another name/,
  );
  const second = { ...inbound, as: "shop_again" };
  generations.publish(await generations.prepare(twice(second), { version: 1, pluginCode }));
  assert.deepEqual(generations.views().map(({ name }) => name), ["shop", "shop_again"]);
  await generations.close();
  assert.deepEqual(generations.views().map(({ failures }) => failures), [1, 1]);
});

test("Generations stops timers that a plugin from a file left running, and logs its name", async () => {
  const clock = new FakeClock();
  const stats = new Stats();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) });
  const shared = new SharedState();
  const generations = new Generations({ log, stats, clock, random: () => 0, shared }, loadBuiltIn);
  const create =
    "clearTimeout(setTimeout(() => {}, 1e8)); clearInterval(setInterval(() => {}, 1e8));" +
    "setTimeout(() => {}, 1e8); setInterval(() => {}, 1e8)";
  const pluginCode = { a: codeOf("/etc/a.ts", "own", create) };
  const wanted = wantedOf({ inbound: useOf("a", "inbound") });
  generations.publish(await generations.prepare(wanted, { version: 1, pluginCode }));
  await generations.close();
  assert.deepEqual(
    lines.map(({ message, fields }) => [message, fields["plugin"], fields["reason"]]),
    [
      ["plugin failed", "own", "timers were running still, which were stopped: 2"],
    ],
  );
  const failures = stats.samples().find(({ name }) => name === "plugin_failures_total");
  assert.equal(failures?.value, 1);
});

test("Generations limits a plugin from a file to a thousand timers", async () => {
  const lender = { log: silentLog, stats: new Stats(), clock: new FakeClock(), random: () => 0 };
  const generations = new Generations({ ...lender, shared: new SharedState() }, loadBuiltIn);
  const create = "for (let i = 0; i < 1001; i++) setInterval(() => {}, 1e8)";
  const pluginCode = { a: codeOf("/etc/a.ts", "own", create) };
  const wanted = wantedOf({ inbound: useOf("a", "inbound") });
  const preparing = generations.prepare(wanted, { version: 1, pluginCode });
  await assert.rejects(preparing, /create\(\): .*more than 1000 timers/);
});
