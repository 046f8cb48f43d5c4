import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, Stats, systemClock } from "../base/mod.ts";
import type { Plugin, Schema } from "./api.ts";
import { Generation } from "./generation.ts";
import { PluginRequest } from "./messages.ts";
import type { AnyPlugin } from "./registry.ts";
import { SharedState } from "./shared_state.ts";

const ANYTHING: Schema = {
  "~standard": { version: 1, validate: (value: unknown) => ({ value }) },
};
const onRequest: Plugin["onRequest"] = (_, next) => next();
const REQUEST = new PluginRequest({
  ...{ method: "GET", scheme: "http", authority: "db", path: "/", upgrade: "", length: 0 },
  ...{ saysLength: false, expectsContinue: false, version: "HTTP/1.1", fields: [] },
}, null);

test("Generation calls a guard before there is a route, and again on one that has a configuration for it", async () => {
  const plugins = (["filter", "guard"] as const).map((phase) => ({
    definition: {
      ...{ name: `of_${phase}`, api: 1, phase, config: ANYTHING, routeConfig: ANYTHING },
      create: () => ({ onRequest }),
    } satisfies AnyPlugin,
    ...{ config: {}, onFailure: "refuse" as const, at: phase },
  }));
  const layersFor = async (configs: Record<string, unknown>) => {
    const generation = await Generation.make({
      listener: "inbound",
      number: 1,
      carriesBytes: false,
      plugins,
      routes: [{ route: { name: "a", service: "db", match: null }, configs, at: "routes.a" }],
      lender: {
        ...{ log: silentLog, stats: new Stats(), clock: systemClock, random: () => 0 },
        shared: new SharedState(),
      },
    });
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
