import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { Labels, Sample } from "../../base/mod.ts";
import { ENVOY_HELP, ENVOY_NAMES } from "./envoy_names.ts";
import type { EnvoyFacts } from "./envoy_facts.ts";
import { envoyStats } from "./envoy_stats.ts";

const SDS = { secret: "web", source: "sds one" };
const FILE = { secret: "/etc/web.pem", source: "file /etc/web.pem" };
const IN = { direction: "inbound", listener: "inbound" };
const OUT = { direction: "outbound", listener: "service:default/default/db" };
const ADDRESS = "listener.127.0.0.1_80";

const FACTS: EnvoyFacts = {
  listeners: [
    {
      name: "inbound",
      direction: "inbound",
      address: "127.0.0.1:80",
      httpPrefix: "public_listener",
      credentials: "inbound",
      secrets: [{ name: "web", source: "sds one", notAfterMs: 10 * 86_400_000 }],
    },
    {
      name: OUT.listener,
      direction: "outbound",
      address: "[::1]:9191",
      httpPrefix: "upstream.db.default.default.dc1",
      credentials: undefined,
      secrets: [],
    },
  ],
  clusters: [{
    upstreams: [OUT.listener],
    name: "db",
    targets: ["db.default.dc1"],
    members: { total: 3, healthy: 2 },
    secrets: [
      { name: "/etc/web.pem", source: FILE.source, notAfterMs: 3.5 * 86_400_000 },
      { name: "roots", source: "sds one" },
    ],
  }],
  secrets: [{ name: "web", source: "sds one", updatedMs: 5_000 }],
  nowMs: 0,
};

/** One sample of 7: its name in Envoy, and its name and labels for Prometheus. */
const TABLE: readonly (readonly [string, Labels, string, string, Labels])[] = [
  ...(["attempt", "success", "failure", "rejected"] as const).map((what) =>
    [
      `sds_update_${what}_total`,
      SDS,
      `sds.web.update_${what}`,
      `sds_update_${what}`,
      { envoy_xds_resource_name: "web" },
    ] as const
  ),
  ["secret_updates_total", FILE, "sds./etc/web.pem.update_success", "sds_update_success", {
    envoy_xds_resource_name: "/etc/web.pem",
  }],
  [
    "secret_rotation_failed_total",
    FILE,
    "sds./etc/web.pem.key_rotation_failed",
    "sds_key_rotation_failed",
    { envoy_xds_resource_name: "/etc/web.pem" },
  ],
  [
    "secret_init_fetch_timeouts_total",
    SDS,
    "sds.web.init_fetch_timeout",
    "sds_init_fetch_timeout",
    {
      envoy_xds_resource_name: "web",
    },
  ],
  [
    "sds_connected_state",
    { source: "sds one" },
    "sds.web.control_plane.connected_state",
    "sds_control_plane_connected_state",
    { envoy_xds_resource_name: "web" },
  ],
  [
    "connections_opened_total",
    IN,
    `${ADDRESS}.downstream_cx_total`,
    "listener_downstream_cx_total",
    {
      envoy_listener_address: "127.0.0.1_80",
    },
  ],
  ...([["listener", "cx"], ["process", "global_cx"]] as const).map(([limit, what]) =>
    [
      "connections_refused_total",
      { ...IN, limit },
      `${ADDRESS}.downstream_${what}_overflow`,
      `listener_downstream_${what}_overflow`,
      { envoy_listener_address: "127.0.0.1_80" },
    ] as const
  ),
  [
    "connections_active",
    OUT,
    "listener.[__1]_9191.downstream_cx_active",
    "listener_downstream_cx_active",
    { envoy_listener_address: "[__1]_9191" },
  ],
  [
    "agent_requests_active",
    {},
    "cluster.local_agent.upstream_rq_active",
    "cluster_upstream_rq_active",
    {
      envoy_cluster_name: "local_agent",
    },
  ],
  [
    "agent_requests_total",
    { resource: "roots", result: "ok" },
    "cluster.local_agent.upstream_rq_completed",
    "cluster_upstream_rq_completed",
    { envoy_cluster_name: "local_agent" },
  ],
  ...(["active", "total"] as const).map((what) =>
    [
      `metrics_requests_${what}`,
      { server: "envoy_metrics" },
      `http.envoy_metrics.downstream_rq_${what}`,
      `http_downstream_rq_${what}`,
      { envoy_http_conn_manager_prefix: "envoy_metrics" },
    ] as const
  ),
  ["tls_resumed_total", IN, `${ADDRESS}.ssl.session_reused`, "listener_ssl_session_reused", {
    envoy_listener_address: "127.0.0.1_80",
  }],
  ["tls_resumed_total", OUT, "cluster.db.ssl.session_reused", "cluster_ssl_session_reused", {
    envoy_cluster_name: "db",
  }],
  [
    "secrets_not_ready_total",
    IN,
    `${ADDRESS}.server_ssl_socket_factory.downstream_context_secrets_not_ready`,
    "listener_server_ssl_socket_factory_downstream_context_secrets_not_ready",
    { envoy_listener_address: "127.0.0.1_80" },
  ],
  [
    "secrets_not_ready_total",
    OUT,
    "cluster.db.client_ssl_socket_factory.upstream_context_secrets_not_ready",
    "cluster_client_ssl_socket_factory_upstream_context_secrets_not_ready",
    { envoy_cluster_name: "db" },
  ],
  ...([
    ["handshake_failed", "connection_error"],
    ["chain_untrusted", "fail_verify_error"],
    ["identity_invalid", "fail_verify_san"],
  ] as const).map(([outcome, stat]) =>
    [
      "connections_ended_total",
      { ...IN, outcome },
      `${ADDRESS}.ssl.${stat}`,
      `listener_ssl_${stat}`,
      { envoy_listener_address: "127.0.0.1_80" },
    ] as const
  ),
  [
    "endpoint_failures_total",
    { target: "db.default.dc1", code: "endpoint_untrusted" },
    "cluster.db.ssl.fail_verify_error",
    "cluster_ssl_fail_verify_error",
    { envoy_cluster_name: "db" },
  ],
  [
    "consul_connected",
    {},
    "control_plane.connected_state",
    "control_plane_connected_state",
    {},
  ],
  [
    "endpoints_ejected",
    { target: "db.default.dc1" },
    "cluster.db.outlier_detection.ejections_active",
    "cluster_outlier_detection_ejections_active",
    { envoy_cluster_name: "db" },
  ],
  ...([
    ["on_demand_cert_requested_total", "cert_requested"],
    ["on_demand_cert_updated_total", "cert_updated"],
    ["on_demand_cert_active", "cert_active"],
  ] as const).map(([name, stat]) =>
    [
      name,
      { credentials: "inbound" },
      `${ADDRESS}.on_demand_secret.${stat}`,
      `listener_on_demand_secret_${stat}`,
      { envoy_listener_address: "127.0.0.1_80" },
    ] as const
  ),
];

function sample(name: string, labels: Labels, value = 7): Sample {
  const kind = /_total$/.test(name) ? "counter" : "gauge";
  return { name, kind, help: "", labels, value };
}

function statsOf(samples: readonly Sample[], facts: EnvoyFacts = FACTS) {
  return new Map(envoyStats(samples, facts).map((stat) => [stat.name, stat]));
}

for (const [name, labels, want, prometheus, tags] of TABLE) {
  test(`envoyStats() calls ${name} ${JSON.stringify(labels)} ${want}`, () => {
    const before = statsOf([]);
    const stats = statsOf([sample(name, labels)]);
    const { kind } = sample(name, labels);
    const { tagged, ...shown } = stats.get(want) ?? assert.fail("it is not there");
    assert.deepEqual(shown, { name: want, kind, value: 7, prometheus, labels: tags });
    assert.equal(tagged?.replaceAll(".", "_"), prometheus);
    const others = [...stats].filter(([key, { value }]) => before.get(key)?.value !== value)
      .map(([key]) => key)
      .filter((key) => !/ssl_context_update_by_sds$|^tcp\.|^server\./.test(key));
    assert.deepEqual(others, [want]);
  });
}

test("every name of the table is tested", () => {
  const tested = new Set(TABLE.map(([name]) => name));
  const all = ENVOY_NAMES.filter(({ scope }) =>
    !["http", "tcp", "behind", "server"].includes(scope)
  );
  assert.deepEqual(all.filter(({ sample }) => !tested.has(sample)), []);
  assert.equal(TABLE.length, all.length);
});

for (
  const [what, name, labels] of [
    ["outcomes that are none of TLS", "connections_ended_total", { ...IN, outcome: "completed" }],
    ["a listener that is gone", "connections_opened_total", { ...IN, listener: "gone" }],
    ["credentials that no listener or cluster uses", "on_demand_cert_active", {
      credentials: "gone",
    }],
    ["a target of no upstream", "endpoint_failures_total", {
      target: "x",
      code: "endpoint_untrusted",
    }],
    ["rejections that an SDS server's counters have", "secret_rotation_failed_total", SDS],
    ["our own metrics", "snapshot_version", {}],
  ] as const
) {
  test(`envoyStats() leaves out ${what}`, () => {
    assert.deepEqual(envoyStats([sample(name, labels)], FACTS), envoyStats([], FACTS));
  });
}

test("envoyStats() has zeroes for statistics of a secret without samples", () => {
  const stats = statsOf([]);
  for (const stat of ["update_attempt", "update_rejected", "key_rotation_failed"]) {
    assert.equal(stats.get(`sds.web.${stat}`)?.value, 0);
  }
  assert.equal(stats.get("sds.web.update_time")?.value, 5_000);
});

test("envoyStats() adds up the updates of a context's secrets", () => {
  const stats = statsOf([
    sample("secret_updates_total", FILE, 2),
    sample("secret_updates_total", { secret: "roots", source: "sds one" }, 3),
    sample("secret_updates_total", { secret: "roots", source: "sds two" }, 100),
    sample("secret_updates_total", SDS, 4),
  ]);
  const updates = "ssl_context_update_by_sds";
  assert.equal(stats.get(`cluster.db.client_ssl_socket_factory.${updates}`)?.value, 5);
  assert.equal(stats.get(`${ADDRESS}.server_ssl_socket_factory.${updates}`)?.value, 4);
});

test("envoyStats() has the expiry of each certificate and the days until the first", () => {
  const stats = statsOf([]);
  const unix = "expiration_unix_time_seconds";
  assert.deepEqual(stats.get(`${ADDRESS}.ssl.certificate.web.${unix}`), {
    name: `${ADDRESS}.ssl.certificate.web.${unix}`,
    kind: "gauge",
    value: 864_000,
    prometheus: `listener_ssl_certificate_${unix}`,
    labels: { envoy_listener_address: "127.0.0.1_80", envoy_tls_certificate: "web" },
  });
  assert.equal(stats.get(`cluster.db.ssl.certificate./etc/web.pem.${unix}`)?.value, 302_400);
  assert.equal(stats.get("server.days_until_first_cert_expiring")?.value, 3);
  const late = statsOf([], { ...FACTS, nowMs: 9e9 });
  assert.equal(late.get("server.days_until_first_cert_expiring")?.value, 0);
  const none = statsOf([], { ...FACTS, listeners: [], clusters: [] });
  assert.equal(none.has("server.days_until_first_cert_expiring"), false);
});

/** Samples of the process. */
const PROCESS: readonly Sample[] = [
  sample("state", {}, 1),
  sample("process_start_time_seconds", {}, 1_000.5),
  sample("build_info", { commit: "00000ff1" }, 1),
  sample("workers", {}, 2),
  sample("process_resident_memory_bytes", {}, 300),
  sample("heap_used_bytes", {}, 100),
  sample("heap_size_bytes", {}, 200),
  sample("connections_active", IN, 3),
  sample("connections_active", OUT, 4),
];

test("envoyStats() has the statistics of Envoy's server", () => {
  const stats = envoyStats(PROCESS, { ...FACTS, clusters: [], nowMs: 1_060_000 });
  const server = stats.filter(({ name }) => name.startsWith("server."));
  assert.deepEqual(Object.fromEntries(server.map(({ name, value }) => [name, value])), {
    "server.concurrency": 2,
    "server.days_until_first_cert_expiring": 9,
    "server.hot_restart_epoch": 0,
    "server.live": 0,
    "server.memory_allocated": 100,
    "server.memory_heap_size": 200,
    "server.memory_physical_size": 300,
    "server.parent_connections": 0,
    "server.state": 1,
    "server.total_connections": 7,
    "server.uptime": 59,
    "server.version": 15,
  });
  assert.deepEqual(new Set(server.map(({ kind }) => kind)), new Set(["gauge"]));
});

test("envoyStats() merges secrets of one name: counters are added, the lowest gauge is shown", () => {
  const secrets = [...FACTS.secrets, { name: "web", source: "sds two", updatedMs: 1_000 }];
  const stats = statsOf([
    sample("sds_update_success_total", SDS, 2),
    sample("sds_update_success_total", { ...SDS, source: "sds two" }, 3),
    sample("sds_connected_state", { source: "sds one" }, 1),
    sample("sds_connected_state", { source: "sds two" }, 0),
  ], { ...FACTS, secrets });
  assert.equal(stats.get("sds.web.update_success")?.value, 5);
  assert.equal(stats.get("sds.web.control_plane.connected_state")?.value, 0);
});

test("ENVOY_HELP has a text for each name that can be shown, and no other", () => {
  const samples = ENVOY_NAMES.flatMap(({ sample, labels }) =>
    [IN, OUT].map((of): Sample => ({
      name: sample,
      kind: "counter",
      help: "",
      value: 1,
      labels: {
        ...of,
        ...SDS,
        ...labels,
        status: "200",
        credentials: "inbound",
        target: "db.default.dc1",
      },
    }))
  );
  const tcp = samples.filter(({ name }) => name !== "http_requests_total");
  const file = samples.map((sample) => ({ ...sample, labels: { ...sample.labels, ...FILE } }));
  const shown = [samples, tcp, file, PROCESS].flatMap((of) => envoyStats(of, FACTS));
  assert.deepEqual(
    [...new Set(shown.map(({ prometheus }) => prometheus))]
      .filter((name) => !name.startsWith("cluster_grpc_")).sort(),
    Object.keys(ENVOY_HELP).sort(),
  );
});
