import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { loadBuiltIn } from "../built_in/mod.ts";
import { createLog, type LogRecord, silentLog, Stats } from "../base/mod.ts";
import type { PluginCodePart, PluginUse } from "../snapshot/mod.ts";
import { Generations, type PluginsOf } from "./generations.ts";
import { type HeldPlugin, HookMarks, HookWatch, IN } from "./hook_marks.ts";
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
  return {
    plugin: `./${code}.ts`,
    file: { code, digest: `digest of ${code}`, allow: [] },
    config: {},
    onFailure: "refuse",
    at,
  };
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

/** Generations in a worker whose marks are watched; `created` counts calls of `create`. */
function markedRig(create = "globalThis.created = (globalThis.created ?? 0) + 1") {
  const scope = globalThis as { created?: number };
  scope.created = 0;
  const watch = new HookWatch();
  const keys = new Set<string>();
  const marks = new HookMarks(watch.memory, (id, plugin) => {
    if (plugin) keys.add(plugin.key);
    watch.take(id, plugin);
  });
  const clock = new FakeClock();
  const stats = new Stats();
  const lender = { log: silentLog, stats, clock, random: () => 0, marks };
  const generations = new Generations({ ...lender, shared: new SharedState() }, loadBuiltIn);
  const pluginCode = { a: codeOf("/etc/a.ts", "shop", create) };
  const prepare = (config: unknown, service = "") =>
    generations.prepare(
      new Map([["db", {
        uses: [{ ...useOf("a", "db"), config }],
        carriesBytes: false,
        routes: [{ route: { name: "default", service, match: null }, configs: {}, at: "" }],
      }]]),
      { version: 1, pluginCode },
    );
  const bar = (barred: HeldPlugin["barred"]) =>
    marks.setHeld([...keys].map((key) => ({ key, reason: "it held", atMs: 1, barred })));
  const broken = () => stats.samples().find(({ name }) => name === "plugin_broken")?.value;
  const states = () => generations.views().map(({ state }) => state);
  return { clock, watch, generations, prepare, pluginCode, bar, broken, states, scope };
}

test("Generations does not call a plugin that held workers, nor creates it, until its configuration changes", async () => {
  const { watch, generations, prepare, bar, broken, states, scope } = markedRig();
  generations.publish(await prepare({ limit: 1 }));
  bar("none");
  assert.deepEqual([states(), generations.views()[0]?.lastFailure?.reason], [
    ["serving"],
    "it held",
  ]);
  bar("calls");
  assert.deepEqual([states(), broken()], [["broken"], 1]);
  const [before] = generations.views();
  generations.publish(await prepare({ limit: 1 }, "other"));
  assert.deepEqual([states().at(0), scope.created, before?.state], ["broken", 1, "broken"]);
  assert.equal(
    generations.of("db")?.plansOf({} as never)[0]?.layers[0]?.health.mayBeCalled(),
    false,
  );
  generations.publish(await prepare({ limit: 2 }));
  assert.deepEqual([states().at(0), scope.created], ["serving", 2]);
  await generations.close();
  assert.equal(watch.isUsed, false);
});

test("Generations refuses a plugin that held workers while it was created", async () => {
  const { watch, generations, prepare, bar, states, scope } = markedRig();
  const good = await prepare({ limit: 1 });
  generations.giveUp(good);
  bar("create");
  await assert.rejects(
    prepare({ limit: 1 }),
    /^ProxyError: Cannot load \.\/a\.ts \(db\.plugins\[0\]\.use\): it held$/,
  );
  assert.deepEqual([states(), scope.created, watch.isUsed], [[], 1, false]);
  await generations.close();
});

test("Generations limits the time of an import", async () => {
  const { clock, watch, prepare, pluginCode } = markedRig();
  pluginCode.a = { ...pluginCode.a, text: "module.exports = new Promise(() => {});" };
  const refused = assert.rejects(prepare({}), /Cannot load .*not done after 5000 ms/);
  await clock.advance(5_000);
  await refused;
  assert.equal(watch.isUsed, false);
});

test("Generations marks the code of a file while it runs", async () => {
  const scope = globalThis as { seen?: (text: string) => void };
  const { watch, generations, prepare } = markedRig("globalThis.seen('create')");
  const seen: string[] = [];
  const cells = new Int32Array(watch.memory);
  scope.seen = (text) => seen.push(`${text} ${(cells[0] ?? 0) % 16 === IN.create}`);
  generations.publish(await prepare({}));
  assert.deepEqual([seen, cells[0]], [["create true"], 0]);
  await generations.close();
});
