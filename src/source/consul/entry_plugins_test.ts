import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareRegexes } from "../../base/mod.ts";
import type { Defaults, EnvoyExtension, RouteRateLimit } from "../../consul/mod.ts";
import rateLimit from "../../../plugins/rate_limit/rate_limit.ts";
import { entryPlugins } from "./entry_plugins.ts";
import { joinPlugins } from "./registered_plugins.ts";

await prepareRegexes();

const NONE: Defaults = { extensions: [] };
const lua = (required: boolean, given: unknown = {}): EnvoyExtension => ({
  name: "builtin/lua",
  required,
  arguments: given,
});
const route = (path: Partial<RouteRateLimit>): RouteRateLimit => ({
  requestsPerSecond: 1,
  burst: 0,
  exact: "",
  prefix: "",
  regex: "",
  ...path,
});

function pluginsOf(
  serviceDefaults: Defaults | null | undefined,
  { proxyDefaults = null, http = true }: {
    proxyDefaults?: Defaults | null;
    http?: boolean;
  } = {},
) {
  return entryPlugins({ proxyDefaults, serviceDefaults }, { service: "db", http });
}

test("entryPlugins() names an extension that has no plugin, and goes on", () => {
  assert.deepEqual(pluginsOf(NONE, { proxyDefaults: { extensions: [lua(false)] } }), {
    uses: [],
    refused: [],
    ignored: ['proxy-defaults global: EnvoyExtensions[0]: "builtin/lua" has no plugin here'],
    blocked: [],
  });
});

test("entryPlugins() blocks where an extension is required that has no plugin", () => {
  const { blocked, refused } = pluginsOf({ extensions: [lua(false), lua(true)] });
  assert.deepEqual(
    blocked,
    ['service-defaults db: EnvoyExtensions[1]: "builtin/lua" has no plugin here'],
  );
  assert.match(refused[0]?.reason ?? "", /and is Required: the public listener does not open$/);
});

test("entryPlugins() reports the effect on an open listener, now and at the next start", () => {
  const { refused } = entryPlugins(
    { proxyDefaults: null, serviceDefaults: { extensions: [lua(true)] } },
    { service: "db", http: true, isOpen: true },
  );
  const want = /keeps its settings from before, and does not open at the next start$/;
  assert.match(refused[0]?.reason ?? "", want);
});

for (
  const [name, given, want] of [
    ["leaves extensions of gateways to them", { ProxyType: "api-gateway" }, undefined],
    ["takes one for sidecars as one", { ProxyType: "connect-proxy" }, /has no plugin here/],
    ["takes one for nobody in particular as one", { ProxyType: "" }, /has no plugin here/],
    ["takes one whose arguments are none as one", null, /has no plugin here/],
  ] as const
) {
  test(`entryPlugins() ${name}`, () => {
    const { blocked } = pluginsOf({ extensions: [lua(true, given)] });
    if (want) assert.match(blocked.join("; "), want);
    else assert.deepEqual(blocked, []);
  });
}

test("entryPlugins() blocks until both entries have been read", () => {
  assert.deepEqual(pluginsOf(undefined).blocked, ["service-defaults db has not been read"]);
});

test("entryPlugins() makes a rate_limit of RateLimits, which takes it", () => {
  const limits = {
    requestsPerSecond: 10,
    burst: 0,
    routes: [
      route({ exact: "/free", requestsPerSecond: 0 }),
      route({ prefix: "/a", burst: 5_000_000 }),
      route({ regex: "/b[0-9]", requestsPerSecond: 5_000_000 }),
    ],
  };
  const { uses, blocked } = pluginsOf({ ...NONE, rateLimits: limits });
  const [use] = uses;
  assert.deepEqual([use?.plugin, use?.at, blocked], [
    "rate_limit",
    "service-defaults db: RateLimits.InstanceLevel",
    [],
  ]);
  assert.deepEqual(use?.config, {
    limits: [{ requestsPerSecond: 10, burst: 10 }],
    paths: [
      { exact: "/free", limits: [] },
      { prefix: "/a", limits: [{ requestsPerSecond: 1, burst: 86_400 }] },
      { regex: "/b[0-9]", limits: [{ requestsPerSecond: 1_000_000, burst: 1_000_000 }] },
    ],
  });
  const judged = rateLimit.config["~standard"].validate(use?.config);
  assert.ok(!(judged instanceof Promise) && !judged.issues);
});

for (
  const [name, limit, want] of [
    ["a negative number", { requestsPerSecond: -1 }, "has a number below 0"],
    [
      "a negative burst of a route",
      { routes: [route({ exact: "/", burst: -1 })] },
      "Routes\\[0\\]",
    ],
    ["a route for nothing", { routes: [route({})] }, "has not exactly one path"],
    ["two paths", { routes: [route({ exact: "/", regex: "/" })] }, "has not exactly one path"],
    ["no path", { routes: [route({ prefix: "a" })] }, 'does not begin with "/"'],
    ["no regex", { routes: [route({ regex: "(" })] }, "PathRegex: .*RE2"],
    ["too many routes", { routes: Array(101).fill(route({ exact: "/" })) }, "more than 100 routes"],
  ] as const
) {
  test(`entryPlugins() does not lift a limit that it cannot follow: ${name}`, () => {
    const rateLimits = { requestsPerSecond: 1, burst: 0, routes: [], ...limit };
    const { uses, blocked } = pluginsOf({ ...NONE, rateLimits });
    assert.deepEqual(uses, []);
    assert.match(blocked.join("; "), new RegExp(want));
  });
}

test("entryPlugins() reports that a tcp service has no requests to limit", () => {
  const rateLimits = { requestsPerSecond: 1, burst: 0, routes: [] };
  const { uses, refused, ignored, blocked } = pluginsOf({ ...NONE, rateLimits }, { http: false });
  assert.deepEqual([uses, refused, blocked], [[], [], []]);
  assert.match(ignored[0] ?? "", /about requests/);
});

test("joinPlugins() replaces the plugin of an entry by the registration's own", () => {
  const use = (plugin: string, at: string) =>
    ({ plugin, config: {}, onFailure: "refuse", at }) as const;
  const entry = [use("rate_limit", "entry"), use("jwt_auth", "entry")];
  const own = [use("cors", "own"), use("rate_limit", "own")];
  assert.deepEqual(joinPlugins(entry, own).map(({ plugin, at }) => `${plugin} ${at}`), [
    "jwt_auth entry",
    "cors own",
    "rate_limit own",
  ]);
});
