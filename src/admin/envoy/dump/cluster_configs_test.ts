/** `configs` of `/config_dump`, as scripts and Consul's tools read Envoy's. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeAdminView } from "../../../../test/kit/admin/admin_view.ts";
import {
  declared,
  httpRules,
  intention,
  targetOf,
  withInbound,
} from "../../../../test/kit/engine/snapshots.ts";
import { DEFAULT_OUTLIER } from "../../../balance/mod.ts";
import type { Intention } from "../../../policy/mod.ts";
import type { Snapshot } from "../../../snapshot/mod.ts";
import { configDump } from "../../config_dump.ts";

// deno-lint-ignore no-explicit-any
type Shown = any;

function dumpOf(
  change: (snapshot: Snapshot) => Snapshot,
  { withEndpoints = false } = {},
): Shown[] {
  const view = fakeAdminView();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  view.snapshot = () => change(snapshot);
  const { configs } = configDump(view, { withEndpoints });
  return JSON.parse(JSON.stringify(configs));
}

const typesOf = (configs: Shown[]) =>
  configs.map((config) => String(config["@type"]).split(".").at(-1));

const TARGETS = {
  db: targetOf({ name: "db", uris: ["spiffe://test/db"], ports: [1] }),
  api: targetOf({ name: "api", uris: ["spiffe://test/api"], ports: [2] }),
};

test("configs are in Envoy's order, with endpoints on request", () => {
  const plain = ["Bootstrap", "Clusters", "Listeners", "ScopedRoutes", "Routes", "Secrets"];
  const named = (names: string[]) => names.map((name) => `${name}ConfigDump`);
  assert.deepEqual(typesOf(dumpOf((snapshot) => snapshot)), named(plain));
  const configs = dumpOf((snapshot) => ({
    ...snapshot,
    ...declared({ name: "db" }),
    targets: TARGETS,
  }), { withEndpoints: true });
  assert.deepEqual(typesOf(configs), named(plain.toSpliced(2, 0, "Endpoints")));
  const [, , { dynamic_endpoint_configs: endpoints }] = configs;
  assert.deepEqual(endpoints.map((one: Shown) => one.endpoint_config.cluster_name), [
    "local_app",
    "db.default.dc1.internal.test.consul",
  ]);
});

test("before there is a snapshot the dump has no listeners", () => {
  const view = fakeAdminView();
  view.started = false;
  const { configs } = configDump(view, { withEndpoints: true });
  assert.deepEqual((configs as Shown[])[3].dynamic_listeners, []);
});

test("a TCP sidecar has RBAC and a TCP proxy, an upstream a TCP proxy to its cluster", () => {
  const [, clusters, { dynamic_listeners: listeners }] = dumpOf((snapshot) => ({
    ...snapshot,
    ...declared({
      name: "db",
      maxConnections: 3,
      outlier: { ...DEFAULT_OUTLIER, intervalMs: 22_000, maxFailures: 4 },
    }),
    targets: TARGETS,
  }));
  const shown = listeners.map(({ name, active_state: { listener } }: Shown) => [
    name,
    listener.traffic_direction,
    ...listener.filter_chains[0].filters.map((filter: Shown) => filter.name),
  ]);
  assert.deepEqual(shown, [
    [
      "public_listener:127.0.0.1:21000",
      "INBOUND",
      "envoy.filters.network.rbac",
      "envoy.filters.network.tcp_proxy",
    ],
    ["db:127.0.0.1:0", "OUTBOUND", "envoy.filters.network.tcp_proxy"],
  ]);
  const [, { active_state: { listener: { filter_chains: [{ filters: [proxy] }] } } }] = listeners;
  assert.equal(proxy.typed_config.cluster, "db.default.dc1.internal.test.consul");
  assert.equal(proxy.typed_config.stat_prefix, "upstream.db.default.default.dc1");
  const [local, { cluster }] = clusters.dynamic_active_clusters;
  assert.equal(local.cluster.name, "local_app");
  assert.deepEqual(cluster.circuit_breakers, { thresholds: [{ max_connections: 3 }] });
  assert.deepEqual(cluster.outlier_detection, { consecutive_5xx: 4, interval: "22s" });
  assert.equal(cluster.transport_socket.typed_config.sni, "db.default.dc1.internal.test.consul");
});

test("an HTTP sidecar has a connection manager; a chain with a choice has a route table", () => {
  const [, clusters, { dynamic_listeners: listeners }, , { dynamic_route_configs: routes }] =
    dumpOf(
      (snapshot) => ({
        ...withInbound(snapshot, { http: httpRules("http", { headBytes: 96 * 1_024 }) }),
        ...declared(
          { name: "db", http: httpRules("http"), targets: ["db", "api"] },
          { name: "api", http: httpRules("http") },
        ),
        targets: TARGETS,
        chains: {
          ...declared({ name: "api", targets: ["api"] }).chains,
          ...withSplit(),
        },
      }),
    );
  const managers = listeners.map(({ active_state: { listener } }: Shown) =>
    listener.filter_chains[0].filters
  );
  assert.ok(
    managers.every(([only, ...others]: Shown[]) =>
      only.name === "envoy.filters.network.http_connection_manager" && others.length === 0
    ),
  );
  const [inbound, db, api] = managers.map(([only]: Shown[]) => only.typed_config);
  assert.deepEqual(inbound.http_filters.map(({ name }: Shown) => name), [
    "envoy.filters.http.rbac",
    "envoy.filters.http.header_to_metadata",
    "envoy.filters.http.router",
  ]);
  assert.equal(inbound.max_request_headers_kb, 96);
  assert.equal(api.max_request_headers_kb, undefined);
  assert.equal(db.rds.route_config_name, "db");
  assert.deepEqual(api.route_config.virtual_hosts[0].routes, [
    { match: { prefix: "/" }, route: { cluster: "api.default.dc1.internal.test.consul" } },
  ]);
  assert.equal(routes.length, 1);
  const [{ match, route }] = routes[0].route_config.virtual_hosts[0].routes;
  // The value that a header match requires may be a token.
  assert.deepEqual(match, {
    prefix: "/v2",
    headers: [{ name: "x-token", string_match: { exact: "(not shown)" } }, {
      name: ":method",
      string_match: { safe_regex: { regex: "GET|PUT" } },
    }],
  });
  assert.deepEqual(route.weighted_clusters, {
    clusters: [
      { name: "db.default.dc1.internal.test.consul", weight: 9_000 },
      { name: "api.default.dc1.internal.test.consul", weight: 1_000 },
    ],
    total_weight: 10_000,
  });
  const names = clusters.dynamic_active_clusters.map(({ cluster }: Shown) => cluster.name);
  assert.deepEqual(names.toSorted(), [
    "api.default.dc1.internal.test.consul",
    "db.default.dc1.internal.test.consul",
    "failover-target~0~db.default.dc1.internal.test.consul",
    "failover-target~1~db.default.dc1.internal.test.consul",
    "local_app",
  ]);
});

function withSplit(): Snapshot["chains"] {
  const { chains } = declared({ name: "db", targets: ["db", "api"] });
  const [[id, chain] = []] = Object.entries(chains);
  assert.ok(id && chain);
  const [route] = chain.routes;
  const [only] = Object.keys(chain.resolvers);
  assert.ok(route && only);
  const other = declared({ name: "api" }).chains["service:default/default/api"]?.resolvers[only];
  assert.ok(other);
  const header = { name: "x-token", kind: "exact", value: "secret", ignoreCase: false } as const;
  const first = {
    ...route,
    match: {
      path: { kind: "prefix", value: "/v2" } as const,
      ignoreCase: false,
      methods: ["GET", "PUT"],
      headers: [{ ...header, invert: false }],
      query: [],
    },
    splits: [{ weight: 90, resolver: only }, { weight: 10, resolver: "other" }],
  };
  const resolvers = { ...chain.resolvers, other };
  return { [id]: { ...chain, routes: [first, route], resolvers } };
}

function rulesOf(
  intentions: readonly Intention[],
  options: { readonly byDefault: "allow" | "deny"; readonly http: boolean },
): Shown {
  const configs = dumpOf((snapshot) => ({
    ...withInbound(snapshot, { http: options.http ? httpRules("http") : null }),
    policy: { version: 1, intentions, defaultAction: options.byDefault },
  }));
  const [{ active_state: { listener } }] = configs[2].dynamic_listeners;
  const [filter] = listener.filter_chains[0].filters;
  return options.http
    ? filter.typed_config.http_filters[0].typed_config.rules
    : filter.typed_config.rules;
}

const source = (name: string) => ({
  authenticated: {
    principal_name: {
      safe_regex: {
        regex: "^spiffe://11111111-2222-3333-4444-555555555555.consul/ns/default/dc/[^/]+/svc/" +
          `${name}$`,
      },
    },
  },
});
const PERMISSIONS: Intention = {
  ...intention("web", "permissions"),
  permissions: [
    { action: "deny", path: { kind: "prefix", value: "/admin" }, methods: [], headers: [] },
    {
      action: "allow",
      methods: ["GET"],
      headers: [{
        name: "x-key",
        kind: "prefix",
        value: "secret",
        ignoreCase: true,
        invert: true,
      }],
    },
  ],
};
const LAYER4 = "consul-intentions-layer4";

for (
  const [name, intentions, byDefault, http, want] of [
    ["no policy by default allow", [], "allow", false, { action: "DENY" }],
    ["no policy by default deny", [], "deny", false, {}],
    ["a policy for a denied source", [intention("web", "deny")], "allow", false, {
      action: "DENY",
      policies: { [LAYER4]: { permissions: [{ any: true }], principals: [source("web")] } },
    }],
    [
      "no policy for an intention that agrees with the default",
      [intention("web", "allow")],
      "allow",
      true,
      {
        action: "DENY",
      },
    ],
    [
      "all sources except a denied one",
      [intention("web", "deny"), intention("*", "allow")],
      "deny",
      true,
      {
        policies: {
          [LAYER4]: {
            permissions: [{ any: true }],
            principals: [{ and_ids: { ids: [source("[^/]+"), { not_id: source("web") }] } }],
          },
        },
      },
    ],
    ["permissions, each without those before it", [PERMISSIONS], "deny", true, {
      policies: {
        "consul-intentions-layer7-0": {
          permissions: [{
            and_rules: {
              rules: [{
                and_rules: {
                  rules: [
                    {
                      header: {
                        name: "x-key",
                        string_match: { prefix: "(not shown)", ignore_case: true },
                        invert_match: true,
                      },
                    },
                    { header: { name: ":method", string_match: { safe_regex: { regex: "GET" } } } },
                  ],
                },
              }, { not_rule: { url_path: { path: { prefix: "/admin" } } } }],
            },
          }],
          principals: [source("web")],
        },
      },
    }],
    [
      "one policy for permissions and the denial that goes with them",
      [
        { ...PERMISSIONS, permissions: [{ action: "deny", methods: ["PUT"], headers: [] }] },
        { ...PERMISSIONS, action: "deny" },
      ],
      "allow",
      true,
      {
        action: "DENY",
        policies: {
          "consul-intentions-layer7-0": {
            permissions: [{
              header: { name: ":method", string_match: { safe_regex: { regex: "PUT" } } },
            }],
            principals: [source("web")],
          },
        },
      },
    ],
    ["a denial for permissions of a TCP service", [PERMISSIONS], "allow", false, {
      action: "DENY",
      policies: { [LAYER4]: { permissions: [{ any: true }], principals: [source("web")] } },
    }],
  ] as const
) {
  test(`rules of RBAC have ${name}`, () => {
    assert.deepEqual(rulesOf(intentions, { byDefault, http }), want);
  });
}

test("an exposed path matches the addresses of its callers", () => {
  const exposed = (port: number, onlyFrom?: readonly string[]) => ({
    [`exposed:${port}`]: {
      version: 1,
      path: "/health",
      localConnectTimeoutMs: 1,
      http: httpRules("http"),
      bind: { kind: "tcp", host: "0.0.0.0", port } as const,
      local: { kind: "tcp", host: "127.0.0.1", port: 80 } as const,
      ...(onlyFrom && { onlyFrom }),
    },
  });
  const [, , { dynamic_listeners: listeners }] = dumpOf((snapshot) => ({
    ...snapshot,
    inbound: {},
    exposed: { ...exposed(21_500, ["10.0.0.1", "2001:db8::1"]), ...exposed(21_501) },
  }));
  const matches = listeners.map(({ active_state: { listener } }: Shown) =>
    listener.filter_chains[0].filter_chain_match?.source_prefix_ranges
      .map((range: Shown) => `${range.address_prefix}/${range.prefix_len}`)
  );
  assert.deepEqual(matches, [
    ["127.0.0.0/8", "10.0.0.1/32", "2001:db8::1/128", "::1/128"],
    undefined,
  ]);
});
