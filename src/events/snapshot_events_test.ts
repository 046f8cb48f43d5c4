import { strict as assert } from "node:assert";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { snapshotOf, targetOf } from "../../test/kit/engine/snapshots.ts";
import type { Endpoint } from "../balance/mod.ts";
import type { Intention } from "../policy/mod.ts";
import type { PublishEffect } from "../proxy/mod.ts";
import { inboundHttp } from "../source/parts/http_rules.ts";
import type { ChainPart, ChainRoute, PluginUse, Snapshot, TargetPart } from "../snapshot/mod.ts";
import { snapshotEvents } from "./snapshot_events.ts";

const CA = createAuthority();
const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 8_080 } as const;
const BASE: Snapshot = snapshotOf({
  ca: CA,
  service: "db",
  local: LOCAL,
  intentions: [intention("web", "allow")],
  upstreams: [{ name: "api" }],
  targets: [target([endpoint(1), endpoint(2)])],
});
const [UPSTREAM] = Object.values(BASE.upstreams);
const [CHAIN_KEY = ""] = Object.keys(BASE.chains);
const [INBOUND] = Object.values(BASE.inbound);
const CHAIN = BASE.chains[CHAIN_KEY];
assert.ok(UPSTREAM && CHAIN && INBOUND);
const [ROUTE] = CHAIN.routes;
assert.ok(ROUTE);

function intention(
  from: string,
  action: Intention["action"],
  more: Partial<Intention> = {},
): Intention {
  return {
    rule: `default/${from} => default/db (precedence 9, ${action})`,
    source: { name: from, namespace: "default", partition: "default", peer: "" },
    action,
    precedence: 9,
    ...more,
  };
}

function endpoint(at: number): Endpoint {
  return { id: `dc1/node/api-${at}`, host: `10.0.0.${at}`, port: 80, weight: 1 };
}

function target(endpoints: readonly Endpoint[], more: Partial<TargetPart> = {}): TargetPart {
  return {
    ...targetOf({ name: "api", uris: [], ports: [] }),
    key: "api.default.default.dc1",
    endpoints,
    ...more,
  };
}

/** `BASE` with changed parts, each in a new version. */
function changed(parts: Partial<Snapshot>): Snapshot {
  return { ...BASE, ...parts, version: BASE.version + 1 };
}

function withIntentions(
  intentions: readonly Intention[],
  defaultAction: "allow" | "deny" = "deny",
): Snapshot {
  return changed({ policy: { version: 999, intentions, defaultAction } });
}

function withTarget(part: TargetPart): Snapshot {
  return changed({ targets: { ...BASE.targets, [part.key]: { ...part, version: 999 } } });
}

const SPLIT = {
  "v1.api.default.default.dc1": CHAIN.resolvers["only"],
  "v2.api.default.default.dc1": CHAIN.resolvers["only"],
};

function splitter(v1: number, v2: number, version: number): Snapshot {
  assert.ok(ROUTE && CHAIN);
  const resolver = CHAIN.resolvers["only"];
  assert.ok(resolver);
  const resolvers = Object.fromEntries(
    Object.keys(SPLIT).map((key) => [key, { ...resolver, targets: [`service:api#${key}`] }]),
  );
  const splits = [["v1", v1], ["v2", v2]].map(([subset, weight]) => ({
    weight: Number(weight),
    resolver: `${subset}.api.default.default.dc1`,
  })).filter(({ weight }) => weight > 0);
  const chain = { version, routes: [{ ...ROUTE, splits }], resolvers };
  return changed({ chains: { [CHAIN_KEY]: chain } });
}

/** The same with a route before the default one. */
function routed(snapshot: Snapshot): Snapshot {
  const chain = snapshot.chains[CHAIN_KEY];
  assert.ok(ROUTE && chain);
  const routes = [{ ...ROUTE, name: "routes[0]", splits: [] }, ...chain.routes];
  return { ...snapshot, chains: { [CHAIN_KEY]: { ...chain, routes } } };
}

/** `BASE` with another chain of `api`. */
function chainOf(
  change: (chain: ChainPart, route: ChainRoute) => ChainPart,
  version = 999,
): Snapshot {
  assert.ok(CHAIN && ROUTE);
  return changed({ chains: { [CHAIN_KEY]: { ...change(CHAIN, ROUTE), version } } });
}

const named = (route: ChainRoute) => (name: string) => ({ ...route, name });

function resolversOf(change: (resolver: Resolver) => Resolver): ChainPart["resolvers"] {
  const resolvers = Object.entries(CHAIN?.resolvers ?? {});
  return Object.fromEntries(resolvers.map(([key, one]) => [key, change(one)]));
}

type Resolver = ChainPart["resolvers"][string];

function pluginUse(code: string, config: unknown): PluginUse {
  const plugin = code === "c" ? "./c.ts" : "consul-kv:own";
  const file = { code, digest: code.repeat(64), allow: [] };
  return { plugin, file, config, onFailure: "refuse", at: "" };
}

function withPlugins(plugins: readonly PluginUse[], version: number): Snapshot {
  assert.ok(INBOUND);
  const part = { version: 1, text: "", map: "", libraries: [] };
  const code = plugins.map(({ plugin, file }) => [file?.code ?? "", { ...part, path: plugin }]);
  const inbound = { inbound: { ...INBOUND, version, plugins } };
  return changed({ inbound, pluginCode: Object.fromEntries(code) });
}

const DENY_WEB = intention("web", "deny");
const ENDED: PublishEffect = {
  code: "intention_denied",
  rule: DENY_WEB.rule,
  ruleBefore: intention("web", "allow").rule,
  connections: 3,
  requests: 0,
};

for (
  const [name, after, want, effects, before] of [
    ["an intention that turns to deny", withIntentions([DENY_WEB]), [
      "info intention [web => db] web => db changed from allow to deny: 3 open connections ended",
    ], [ENDED]],
    [
      "a new intention that denies",
      withIntentions([intention("web", "allow"), intention("*", "deny")]),
      [
        "info intention [* => db] deny * => db added",
      ],
    ],
    ["a removed intention", withIntentions([]), [
      "info intention [web => db] allow web => db removed: 1 open connection ended",
    ], [{ ...ENDED, rule: "default deny", connections: 1 }]],
    ["another default", withIntentions([intention("web", "allow")], "allow"), [
      "warn intention [* => db] default deny to default allow",
    ]],
    ["permissions", withIntentions([intention("web", "permissions", { permissions: [] })]), [
      "info intention [web => db] web => db changed from allow to 0 permissions: 2 open requests ended",
    ], [{ ...ENDED, rule: intention("web", "permissions").rule, connections: 0, requests: 2 }]],
    [
      "permissions with paths",
      withIntentions([intention("web", "permissions", {
        permissions: [
          {
            action: "allow",
            methods: ["GET"],
            path: { kind: "prefix", value: "/orders" },
            headers: [],
          },
          {
            action: "deny",
            methods: [],
            path: { kind: "exact", value: "/admin" },
            headers: [{
              name: "x-token",
              kind: "exact",
              value: "secret",
              ignoreCase: false,
              invert: false,
            }],
          },
        ],
      })]),
      [
        "info intention [web => db] web => db changed from allow to 2 permissions " +
        "(allow GET /orders*, deny /admin header x-token)",
      ],
    ],
    [
      "many permissions",
      withIntentions([intention("web", "permissions", {
        permissions: Array.from({ length: 9 }, (_, at) => ({
          action: "allow" as const,
          methods: ["GET"],
          path: { kind: "regex" as const, value: `/${at}${"x".repeat(at === 0 ? 200 : 0)}` },
          headers: [],
        })),
      })]),
      [
        `info intention [web => db] web => db changed from allow to 9 permissions (allow GET ~/0${
          "x".repeat(67)
        }..., allow GET ~/1, allow GET ~/2, allow GET ~/3, 5 more)`,
      ],
    ],
    [
      "many intentions",
      withIntentions(Array.from({ length: 500 }, (_, at) => intention(`w${at}`, "deny"))),
      [
        "info intention [* => db] 501 intentions changed (500 added, 1 removed); 500 in force",
      ],
    ],
    [
      "another weight of a splitter",
      splitter(50, 50, 1_001),
      [
        "info chain [api] splitter api: v1 90 % to 50 %, v2 10 % to 50 %",
      ],
      [],
      splitter(90, 10, 1_000),
    ],
    [
      "a split that goes",
      splitter(1, 0, 1_001),
      [
        "info chain [api] splitter api: v1 90 % to 100 %, v2 10 % to 0 %",
      ],
      [],
      splitter(90, 10, 1_000),
    ],
    [
      "a split of one route of several",
      routed(splitter(50, 50, 1_001)),
      ["info chain [api] splitter api, route default: v1 90 % to 50 %, v2 10 % to 50 %"],
      [],
      routed(splitter(90, 10, 1_000)),
    ],
    [
      "a new route",
      changed({
        chains: {
          [CHAIN_KEY]: {
            ...CHAIN,
            version: 999,
            routes: [{
              ...ROUTE,
              name: "routes[0]",
              match: {
                path: { kind: "prefix", value: "/v2" },
                ignoreCase: false,
                methods: ["GET"],
                headers: [{
                  name: "x-token",
                  kind: "exact",
                  value: "secret",
                  ignoreCase: false,
                  invert: false,
                }],
                query: [],
              },
            }, ROUTE],
          },
        },
      }),
      ["info chain [api] route routes[0] of api (GET /v2* header x-token) added: api 100 %"],
    ],
    [
      "a chain of which everything else changes",
      chainOf((chain, route) => ({
        ...chain,
        routes: [{ ...route, name: "routes[1]", plugins: { retry: { numRetries: 2 } } }],
        resolvers: resolversOf((resolver) => ({ ...resolver, targets: ["service:api#db"] })),
      })),
      [
        "info chain [api] splitter api: db 0 % to 100 %, api 100 % to 0 %",
        "info chain [api] settings of route routes[1] of api changed: retry",
        "info chain [api] route routes[0] of api removed",
        "info chain [api] resolver only of api: db, was api",
      ],
      [],
      chainOf((chain, route) => ({
        ...chain,
        routes: [{ ...route, name: "routes[0]" }, { ...route, name: "routes[1]" }],
      }), 998),
    ],
    [
      "routes in another order",
      chainOf((chain, route) => ({ ...chain, routes: ["b", "a"].map(named(route)) })),
      ["info chain [api] order of routes of api: b, a"],
      [],
      chainOf((chain, route) => ({ ...chain, routes: ["a", "b"].map(named(route)) }), 998),
    ],
    [
      "a critical instance",
      withTarget(
        target([endpoint(1)], { unhealthy: [{ ...endpoint(2), checks: ["serfHealth"] }] }),
      ),
      ["warn endpoint [api] api-2 critical (serfHealth): 1 usable instance, 2 before"],
    ],
    ["the last instance gone", withTarget(target([], { lack: "nobody is registered" })), [
      "info endpoint [api] api-1 removed",
      "error endpoint [api] api-2 removed: no usable instance: nobody is registered",
    ]],
    ["a new instance", withTarget(target([1, 2, 3].map(endpoint))), [
      "info endpoint [api] api-3 added at 10.0.0.3:80: 3 usable instances, 2 before",
    ]],
    [
      "an instance that passes again",
      withTarget(target([1, 2].map(endpoint))),
      [
        "info endpoint [api] api-2 passing: 2 usable instances, 1 before",
      ],
      [],
      changed({
        targets: { "api.default.default.dc1": target([endpoint(1)], { unhealthy: [endpoint(2)] }) },
      }),
    ],
    [
      "the first instance that passes",
      withTarget(target([endpoint(1)], { unhealthy: [endpoint(2)] })),
      ["info endpoint [api] api-1 passing: first instance: 1 usable"],
      [],
      changed({
        targets: { "api.default.default.dc1": target([], { unhealthy: [1, 2].map(endpoint) }) },
      }),
    ],
    [
      "an instance elsewhere, with another weight",
      withTarget(
        target([{ ...endpoint(1), host: "10.0.0.9" }, { ...endpoint(2), weight: 5 }]),
      ),
      [
        "info endpoint [api] api-1 moved from 10.0.0.1:80 to 10.0.0.9:80",
        "info endpoint [api] weight of api-2 1 to 5",
      ],
    ],
    [
      "ten thousand instances",
      withTarget(target(Array.from({ length: 10_000 }, (_, at) => endpoint(at)))),
      [
        "info endpoint [api] 9998 added: 10000 usable instances, 2 before",
      ],
    ],
    [
      "an upstream's protocol and limits",
      changed({
        upstreams: {
          [UPSTREAM.id]: { ...UPSTREAM, version: 999, maxRequests: 10, idleTimeoutMs: 5_000 },
        },
      }),
      [
        "info limit [api] open requests 1024 to 10 (api)",
        "info limit [api] idle timeout none to 5000 ms (api)",
      ],
    ],
    [
      "an upstream that allows no connection, and any number of callers",
      changed({ upstreams: { [UPSTREAM.id]: { ...UPSTREAM, version: 999, maxConnections: 0 } } }),
      [
        "info limit [api] connections 1024 to 0 (api)",
        "info limit [api] connections of callers 9 to no limit (api)",
      ],
      [],
      changed({
        upstreams: { [UPSTREAM.id]: { ...UPSTREAM, version: 998, maxClientConnections: 9 } },
      }),
    ],
    [
      "a public listener without a limit",
      changed({ inbound: { inbound: { ...INBOUND, version: 999, maxConnections: 0 } } }),
      ["info limit [inbound] connections 50 to no limit (inbound)"],
      [],
      changed({ inbound: { inbound: { ...INBOUND, version: 998, maxConnections: 50 } } }),
    ],
    [
      "HTTP on the public listener",
      changed({
        inbound: {
          inbound: { ...INBOUND, version: 999, http: inboundHttp("http", {}) },
        },
      }),
      ["info protocol [inbound] protocol of inbound tcp to http"],
    ],
    ["an upstream that goes", changed({ upstreams: {} }), [
      `info listener [api] upstream api removed at 127.0.0.1:${
        UPSTREAM.bind && "port" in UPSTREAM.bind ? UPSTREAM.bind.port : ""
      }`,
    ]],
    [
      "plugins",
      changed({
        inbound: {
          inbound: {
            ...INBOUND,
            version: 999,
            plugins: [{
              plugin: "rate_limit",
              config: { key: "secret" },
              onFailure: "refuse",
              at: "",
            }],
          },
        },
      }),
      ["info plugin [inbound] plugins of inbound: rate_limit added"],
    ],
    [
      "a plugin of another digest, and one that is configured again",
      withPlugins([pluginUse("b", { limit: 2 }), pluginUse("c", {})], 1_001),
      [
        "info plugin [inbound] plugins of inbound: consul-kv:own (sha256 bbbbbbbbbbbb) added, " +
        "consul-kv:own (sha256 aaaaaaaaaaaa) removed, ./c.ts configured again",
        "info plugin [consul-kv:own] code of consul-kv:own loaded (sha256 bbbbbbbbbbbb)",
      ],
      [],
      withPlugins([pluginUse("a", { limit: 1 }), pluginUse("c", { limit: 1 })], 1_000),
    ],
    [
      "a renewed certificate",
      changed({
        credentials: BASE.credentials &&
          { ...BASE.credentials, version: 999, certPem: "new", serial: "02", notAfterMs: 0 },
      }),
      ["info certificate [leaf] certificate renewed, serial 02, valid until 1970-01-01T00:00:00.000Z"],
    ],
    [
      "roots without an old one",
      changed({
        credentials: BASE.credentials && { ...BASE.credentials, version: 999, rootPems: ["new"] },
      }),
      [
        "info certificate [roots] roots rotated: 1 added, 1 removed, 1 in force: 2 open connections ended",
      ],
      [{ ...ENDED, code: "chain_untrusted", rule: "", connections: 2 }],
    ],
    ["nothing", changed({}), []],
  ] as readonly (readonly [
    string,
    Snapshot,
    readonly string[],
    (readonly PublishEffect[])?,
    Snapshot?,
  ])[]
) {
  test(`snapshotEvents() of ${name}`, () => {
    const events = snapshotEvents(before ?? BASE, after, effects);
    assert.deepEqual(
      events.map(({ kind, subject, text, effect = "", severity = "info" }) =>
        `${severity} ${kind} [${subject}] ${text}${effect && `: ${effect}`}`
      ),
      want,
    );
    assert.doesNotMatch(JSON.stringify(events), /secret|PRIVATE/);
  });
}
