import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog, silentLog, Stats, systemClock } from "../base/mod.ts";
import type { Plugin, Schema } from "./api.ts";
import { Generation } from "./generation.ts";
import { PluginRequest } from "./messages.ts";
import type { RoutePlugins } from "./instances.ts";
import type { AnyPlugin } from "./definition.ts";
import { SharedState } from "./shared_state.ts";

const ANYTHING: Schema = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
};
const onRequest: Plugin["onRequest"] = (_, next) => next();
const REQUEST = new PluginRequest({
  method: "GET",
  scheme: "http",
  authority: "db",
  path: "/",
  upgrade: "",
  length: 0,
  saysLength: false,
  expectsContinue: false,
  version: "HTTP/1.1",
  fields: [],
}, null);

const PLUGINS = (["filter", "guard"] as const).map((phase) => ({
  definition: {
    name: `of_${phase}`,
    api: 1,
    phase,
    config: ANYTHING,
    routeConfig: ANYTHING,
    create: () => ({ onRequest }),
  } satisfies AnyPlugin,
  config: {},
  onFailure: "refuse" as const,
  at: phase,
}));

async function generationOf(
  plugins: Pick<RoutePlugins, "configs" | "splits">,
  { carriesBytes = false, isForAll = false } = {},
) {
  return await Generation.make({
    listener: "inbound",
    number: 1,
    carriesBytes,
    plugins: PLUGINS.map((plugin) => ({ ...plugin, isForAll })),
    routes: [{ route: { name: "a", service: "db", match: null }, ...plugins, at: "routes.a" }],
    lender: {
      log: silentLog,
      stats: new Stats(),
      clock: systemClock,
      random: () => 0,
      shared: new SharedState(),
    },
  });
}

test("Generation calls a guard before there is a route, and again on one that has a configuration for it", async () => {
  const layersFor = async (configs: Record<string, unknown>) => {
    const generation = await generationOf({ configs });
    const layers = [...generation.guards, ...generation.planOf(REQUEST)?.layers ?? []];
    return layers.map(({ name, routeConfig }) => [name, routeConfig]);
  };
  assert.deepEqual(await layersFor({}), [["of_guard", undefined], ["of_filter", undefined]]);
  assert.deepEqual(await layersFor({ of_guard: 1, of_filter: 2 }), [
    ["of_guard", undefined],
    ["of_guard", 1],
    ["of_filter", 2],
  ]);
});

test("Generation joins the list's configuration for routes with the chain's, and names what it does not use", async () => {
  const lines: string[] = [];
  const log = createLog({
    clock: systemClock,
    holder: { level: "debug" },
    write: ({ fields }) => void lines.push(`${fields.at} ${fields.unused} of ${fields.known}`),
  });
  const make = (configs: Record<string, unknown>) => {
    const [filter, guard] = PLUGINS;
    const routes = { a: 3, b: 4 };
    return Generation.make({
      listener: "inbound",
      plugins: filter && guard ? [{ ...filter, routes }, guard] : [],
      routes: [{ route: { name: "a", service: "db", match: null }, configs, at: "routes.a" }],
      lender: {
        log,
        stats: new Stats(),
        clock: systemClock,
        random: () => 0,
        shared: new SharedState(),
      },
    });
  };
  const plan = (await make({ of_guard: 1 })).planOf(REQUEST);
  assert.deepEqual(plan?.layers.map(({ name, routeConfig }) => [name, routeConfig]), [
    ["of_guard", 1],
    ["of_filter", 3],
  ]);
  assert.deepEqual(lines, ["filter.routes b of a"]);
  await assert.rejects(
    make({ of_filter: 1 }),
    /filter\.routes\["a"\]: the chain configures of_filter there; list it with "as"/,
  );
});

test("Generation on a listener that carries bytes leaves plugins for requests unused where the list is for all", async () => {
  const generation = await generationOf({ configs: {} }, { carriesBytes: true, isForAll: true });
  assert.deepEqual(generation.views().map(({ state }) => state), ["unused", "unused"]);
  assert.equal(generation.judgesConnections, false);
  await assert.rejects(
    generationOf({ configs: {} }, { carriesBytes: true }),
    /filter: of_filter looks at requests, and this listener carries bytes/,
  );
});

test("Generation picks a split by its weight, with the plugin configuration of the split", async () => {
  const splits = [
    { weight: 10, resolver: "v1", configs: { of_filter: 1 } },
    { weight: 90, resolver: "v2", configs: {} },
  ];
  const generation = await generationOf({ configs: { of_filter: 2 }, splits });
  const planned = Array.from({ length: 1_000 }, () => {
    const { resolver, layers = [] } = generation.planOf(REQUEST) ?? {};
    return `${resolver} ${layers.map(({ routeConfig }) => routeConfig)}`;
  });
  const of = (wanted: string) => planned.filter((one) => one === wanted).length;
  assert.deepEqual([of("v1 1"), of("v2 ")], [100, 900]);
  const whole = await generationOf({ configs: {} });
  assert.equal(whole.planOf(REQUEST)?.resolver, undefined, "left to chance later");
  await assert.rejects(
    generationOf({ configs: {}, splits: [{ weight: 1, resolver: "v1", configs: { other: 1 } }] }),
    /routes\.a\.other: no plugin of that name is loaded/,
  );
});
