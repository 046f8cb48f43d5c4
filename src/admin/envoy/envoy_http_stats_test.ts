/** HTTP statistics under Envoy's names. */
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { formatPrometheus, type Labels, type Sample, Stats } from "../../base/mod.ts";
import { exchangeRecord } from "../../../test/kit/wire/exchange_records.ts";
import { FLAG } from "../../http/mod.ts";
import { ListenerStats } from "../../proxy/observe/listener_stats.ts";
import { HttpStats } from "../../proxy/observe/http_stats.ts";
import { ENVOY_NAMES } from "./envoy_names.ts";
import type { EnvoyFacts } from "./envoy_facts.ts";
import { envoyStats } from "./envoy_stats.ts";

const DB = "service:default/default/db";
const FACTS: EnvoyFacts = {
  listeners: [
    {
      name: "inbound",
      direction: "inbound",
      address: "10.0.0.8:20000",
      httpPrefix: "public_listener",
      credentials: undefined,
      secrets: [],
    },
    {
      name: DB,
      direction: "outbound",
      address: "127.0.0.1:9191",
      httpPrefix: "upstream.db.default.default.dc1",
      credentials: undefined,
      secrets: [],
    },
  ],
  clusters: [{
    upstreams: [DB],
    name: "db",
    targets: ["db"],
    members: { total: 3, healthy: 2 },
    secrets: [],
  }],
  secrets: [],
  nowMs: 0,
};

/** Samples of a listener after three requests, one of them failed. */
function samples(direction: "inbound" | "outbound", listener: string): readonly Sample[] {
  const stats = new Stats();
  const labels = { direction, listener };
  stats.counter("connections_opened_total", "", labels).add(2);
  stats.gauge("connections_active", "", labels).add(1);
  const http = new HttpStats(stats, { direction, listener, speaksGrpc: () => false });
  const cluster = direction === "inbound" ? "local_app" : "db";
  const behind = http.of(cluster);
  const { pool } = behind;
  pool.connectionsOpened.add(1);
  pool.connectionsActive.add(1);
  pool.pending.add(2);
  pool.pendingActive.add(1);
  pool.connectFailures.add(4);
  pool.connectTimeouts.add(3);
  for (let i = 0; i < 4; i++) http.began();
  // Five attempts; one is not over.
  for (let i = 0; i < 5; i++) behind.reached();
  for (let i = 0; i < 4; i++) behind.left();
  http.ended(exchangeRecord({ status: 200, upstreamCluster: cluster }));
  http.ended(exchangeRecord({ status: 204, upstreamCluster: cluster }));
  const flags = FLAG.UT | FLAG.URX | FLAG.UO | FLAG.UH | FLAG.UC | FLAG.UR | FLAG.SI | FLAG.DC |
    FLAG.DR | FLAG.DPE;
  http.ended(exchangeRecord({ status: 504, attempts: 3, flags, upstreamCluster: cluster }));
  return stats.samples();
}

const EXPECTED = {
  "http.downstream_cx_total": 2,
  "http.downstream_cx_active": 1,
  "http.downstream_rq_total": 4,
  "http.rq_total": 5,
  "http.downstream_rq_active": 1,
  "http.downstream_rq_time": 37.5,
  "http.downstream_rq_completed": 3,
  "http.downstream_rq_2xx": 2,
  "http.downstream_rq_5xx": 1,
  "http.downstream_rq_idle_timeout": 1,
  "http.downstream_rq_rx_reset": 2,
  "http.downstream_cx_protocol_error": 1,
  "cluster.upstream_rq_active": 1,
  "cluster.upstream_rq_total": 5,
  "cluster.upstream_rq_completed": 3,
  "cluster.upstream_rq_200": 1,
  "cluster.upstream_rq_204": 1,
  "cluster.upstream_rq_504": 1,
  "cluster.upstream_rq_2xx": 2,
  "cluster.upstream_rq_5xx": 1,
  "cluster.upstream_rq_time": 34.5,
  "cluster.upstream_rq_retry": 2,
  "cluster.upstream_rq_pending_total": 2,
  "cluster.upstream_rq_pending_active": 1,
  "cluster.upstream_cx_total": 1,
  "cluster.upstream_cx_active": 1,
  "cluster.upstream_cx_connect_fail": 4,
  "cluster.upstream_cx_connect_timeout": 3,
  "cluster.upstream_rq_timeout": 1,
  "cluster.upstream_rq_rx_reset": 2,
  "cluster.upstream_rq_pending_overflow": 1,
  "cluster.upstream_rq_retry_limit_exceeded": 1,
  "cluster.upstream_cx_none_healthy": 1,
};

for (
  const [direction, listener, prefix, cluster] of [
    ["inbound", "inbound", "public_listener", "local_app"],
    ["outbound", DB, "upstream.db.default.default.dc1", "db"],
  ] as const
) {
  test(`envoyStats() has the expected HTTP statistics of an ${direction} listener`, () => {
    const stats = envoyStats(samples(direction, listener), FACTS);
    const of = new Map(stats.map(({ name, value }) => [name, value]));
    for (const [name, value] of Object.entries(EXPECTED)) {
      const [scope, ...rest] = name.split(".");
      const whole = `${scope}.${scope === "http" ? prefix : cluster}.${rest.join(".")}`;
      assert.equal(of.get(whole), value, whole);
    }
    const address = direction === "inbound" ? "10.0.0.8_20000" : "127.0.0.1_9191";
    assert.equal(of.get(`listener.${address}.http.${prefix}.downstream_rq_2xx`), 2);
    assert.equal(of.get("cluster.db.membership_healthy"), 2);
    assert.equal(of.get("cluster.db.membership_total"), 3);
  });
}

test("the HTTP test covers every HTTP name of ENVOY_NAMES", () => {
  const rows = ENVOY_NAMES.filter(({ scope, sample }) =>
    scope === "http" || scope === "behind" && sample.startsWith("http_")
  );
  for (const { scope, stat, by } of rows) {
    const name = `${scope === "http" ? scope : "cluster"}.${stat}${by ? "_2xx" : ""}`;
    assert.ok(name in EXPECTED, name);
  }
});

test("envoyStats() counts calls of a gRPC method by status, and successes and failures", () => {
  const stats = new Stats();
  const call = { direction: "outbound", listener: DB, cluster: "db", service: "shop.Orders" };
  for (const status of ["0", "14"]) {
    const labels = { ...call, method: "Place", status };
    stats.counter("grpc_calls_total", "", labels).add(status === "0" ? 3 : 1);
  }
  const shown = envoyStats(stats.samples(), { ...FACTS, clusters: FACTS.clusters.slice(0, 1) })
    .filter(({ name }) => name.includes(".grpc."));
  assert.deepEqual(
    shown.map(({ name, tagged, value }) =>
      `${name.replace("cluster.db.grpc.", "")} ${tagged?.replace("cluster.grpc.", "")} ${value}`
    ),
    ["0", "total", "success", "14", "failure"].map((what) => {
      const name = `shop.Orders.Place.${what}`;
      return `${name} ${name} ${({ total: 4, failure: 1, 14: 1 })[what] ?? 3}`;
    }),
  );
  assert.equal(shown[1]?.prometheus, "cluster_grpc_shop_Orders_Place_total");
});

test("envoyStats() puts the variable parts of a name into labels for Prometheus, as Envoy does", () => {
  const text = formatPrometheus(
    envoyStats(samples("inbound", "inbound"), FACTS).map(({ prometheus, ...stat }) => ({
      ...stat,
      name: prometheus,
      help: "x",
    })),
    "envoy_",
  );
  const has = (name: string, labels: Labels, value: number) => {
    const pairs = Object.entries(labels).map(([key, label]) => `${key}="${label}"`).join(",");
    assert.ok(
      text.includes(`\n${name}{${pairs}} ${value}\n`),
      `${name} {${pairs}} ${value}\n${text}`,
    );
  };
  const listener = { envoy_http_conn_manager_prefix: "public_listener" };
  const cluster = { envoy_cluster_name: "local_app" };
  has("envoy_http_downstream_rq_total", listener, 4);
  has("envoy_http_downstream_rq_xx", { ...listener, envoy_response_code_class: "2" }, 2);
  has("envoy_http_downstream_rq_time_bucket", { ...listener, le: "25" }, 3);
  has("envoy_http_downstream_rq_time_count", listener, 3);
  has("envoy_cluster_upstream_rq", { ...cluster, envoy_response_code: "504" }, 1);
  has("envoy_cluster_upstream_rq_xx", { ...cluster, envoy_response_code_class: "5" }, 1);
  has("envoy_cluster_upstream_rq_time_sum", cluster, 34.5);
  has("envoy_listener_http_downstream_rq_xx", {
    envoy_listener_address: "10.0.0.8_20000",
    ...listener,
    envoy_response_code_class: "5",
  }, 1);
});

test("envoyStats() of a TCP listener has the statistics of Envoy's TCP proxy, and none of HTTP", () => {
  const stats = new Stats();
  const listener = new ListenerStats(stats, "outbound", DB);
  for (let count = 0; count < 3; count++) listener.began();
  listener.ended({}, { kind: "completed", by: "downstream" });
  listener.metrics.receivedBytes.add(5);
  listener.metrics.sentBytes.add(25);
  listener.metrics.receivedWaiting.add(1);
  listener.metrics.sentWaiting.add(2);
  const behind = listener.of("db");
  behind.opened();
  behind.opened();
  behind.moved(5, 25);
  behind.ended();
  behind.failed("endpoint_timed_out");
  behind.failed("endpoint_refused");
  // A cluster that is gone.
  listener.of("gone").opened();
  const all = envoyStats(stats.samples(), FACTS);
  assert.deepEqual(all.filter(({ name }) => /^http\.|gone/.test(name)), []);
  const of = new Map(all.map(({ name, value }) => [name, value]));
  for (
    const [name, value] of [
      ["tcp.upstream.db.default.default.dc1.downstream_cx_total", 3],
      ["tcp.upstream.db.default.default.dc1.downstream_cx_rx_bytes_total", 5],
      ["tcp.upstream.db.default.default.dc1.downstream_cx_tx_bytes_total", 25],
      ["tcp.upstream.db.default.default.dc1.downstream_cx_rx_bytes_buffered", 1],
      ["tcp.upstream.db.default.default.dc1.downstream_cx_tx_bytes_buffered", 2],
      ["tcp.upstream.db.default.default.dc1.downstream_cx_no_route", 0],
      ["cluster.db.upstream_cx_total", 2],
      ["cluster.db.upstream_cx_active", 1],
      ["cluster.db.upstream_cx_connect_fail", 2],
      ["cluster.db.upstream_cx_connect_timeout", 1],
      ["cluster.db.upstream_cx_tx_bytes_total", 5],
      ["cluster.db.upstream_cx_rx_bytes_total", 25],
    ] as const
  ) assert.equal(of.get(name), value, name);
});
