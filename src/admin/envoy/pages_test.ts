/** Pages in Envoy's shape: upstreams that fail over, that share a cluster, and without an instance. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { declared, httpRules, targetOf } from "../../../test/kit/engine/snapshots.ts";
import { createAdmin } from "../admin.ts";

const DB2 = "1a47f6e1~db.default.dc2.internal.test.consul";

function admin() {
  const view = fakeAdminView();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  const sick = [{ id: "dc1/n/sick", host: "10.0.0.9", port: 21_000, weight: 1 }];
  const targets = {
    db: targetOf({ name: "db", uris: [], ports: [21_001, 21_002] }),
    db2: targetOf({
      name: "db2",
      uris: [],
      ports: [],
      overrides: { cluster: DB2, unhealthy: sick },
    }),
    api: targetOf({
      name: "api",
      uris: [],
      ports: [],
      overrides: { lack: "nobody is registered" },
    }),
  };
  const upstreams = declared(
    { name: "db", targets: ["db2", "db"] },
    { name: "api", http: httpRules("http"), maxConnections: 7, bind: { kind: "unix", path: "/a" } },
  );
  view.snapshot = () => ({ ...snapshot, ...upstreams, targets });
  const [first] = Object.keys(upstreams.upstreams);
  const data = view.data;
  view.data = async () => {
    const [path] = await data();
    assert.ok(path);
    const endpoint = { ...path.endpoints[0], target: "db", lastResort: false, lastFailure: "" };
    return [{
      ...path,
      endpoints: [
        { ...endpoint, id: "a", address: "127.0.0.1:21001", weight: 1, active: 2, failures: 0 },
        { ...endpoint, id: "b", address: "127.0.0.1:21002", weight: 1, active: 0, failures: 5 },
      ].map((shown, at) => ({ ...shown, ejectedForMs: at * 1_000 })),
      samples: [
        {
          name: "upstream_connections_total",
          kind: "counter",
          help: "",
          value: 3,
          labels: {
            direction: "outbound",
            listener: first ?? "",
            cluster: `failover-target~1~${DB2}`,
          },
        },
        {
          name: "connections_active",
          kind: "gauge",
          help: "",
          value: 2,
          labels: { direction: "inbound", listener: "inbound" },
        },
        {
          name: "http_request_duration_ms",
          kind: "histogram",
          help: "",
          value: 30,
          labels: { direction: "inbound", listener: "inbound" },
          counts: [0, 0, 0, 2, ...Array.from({ length: 20 }, () => 0)],
        },
      ],
    }];
  };
  const app = createAdmin(view, { boundHost: "127.0.0.1" });
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { host: "127.0.0.1:19000" };
    const reply = await app.request(path, { ...init, headers }, { peer: "127.0.0.1" });
    assert.equal(reply.status, 200, path);
    return await reply.text();
  };
  return { view, ask, json: async (path: string) => JSON.parse(await ask(path)) };
}

interface Status {
  readonly name: string;
  readonly host_statuses: readonly {
    readonly address: { readonly socket_address: { readonly port_value: number } };
    readonly health_status: Readonly<Record<string, unknown>>;
    readonly stats: readonly Readonly<Record<string, string>>[];
  }[];
  readonly circuit_breakers: unknown;
}

test("admin /clusters has Consul's clusters, with every endpoint and its health", async () => {
  const { ask, json } = admin();
  const { cluster_statuses: statuses }: { cluster_statuses: Status[] } = await json(
    "/clusters?format=json",
  );
  const shown = statuses.map(({ name, host_statuses }) => [
    name,
    ...host_statuses.map(({ address, health_status: { failed_outlier_check, ...health } }) =>
      `${address.socket_address.port_value} ${health["eds_health_status"]}` +
      (failed_outlier_check ? " ejected" : "")
    ),
  ]);
  assert.deepEqual(shown, [
    ["local_app", "8080 HEALTHY"],
    [`failover-target~0~${DB2}`, "21000 UNHEALTHY"],
    [`failover-target~1~${DB2}`, "21001 HEALTHY", "21002 HEALTHY ejected"],
    [DB2],
    ["api.default.dc1.internal.test.consul"],
  ]);
  assert.deepEqual(statuses[2]?.host_statuses[0]?.stats, [
    { type: "GAUGE", value: "2", name: "cx_active" },
  ]);
  assert.deepEqual(statuses.at(-1)?.circuit_breakers, {
    thresholds: [{ max_connections: 7, max_pending_requests: 1_024, max_requests: 1_024 }],
  });
  const text = (await ask("/clusters")).split("\n");
  assert.ok(
    text.includes(`failover-target~0~${DB2}::10.0.0.9:21000::health_flags::/failed_eds_health`),
  );
  assert.ok(text.includes(`failover-target~1~${DB2}::127.0.0.1:21001::cx_active::2`));
  assert.ok(
    text.includes("api.default.dc1.internal.test.consul::no_endpoint::nobody is registered"),
  );
});

test("admin /listeners has Consul's names, and only those that are bound", async () => {
  const { json } = admin();
  assert.deepEqual(await json("/listeners?format=json"), {
    listener_statuses: [
      {
        name: "public_listener:127.0.0.1:21000",
        local_address: { socket_address: { address: "0.0.0.0", port_value: 21_000 } },
      },
      {
        name: "db:127.0.0.1:0",
        local_address: { socket_address: { address: "127.0.0.1", port_value: 9_191 } },
      },
    ],
  });
});

test("admin /stats filters by kind and use, and names clusters as Consul does", async () => {
  const { ask, json } = admin();
  const name = `cluster.failover-target~1~${DB2}.upstream_cx_total`;
  const counters = await json("/stats?format=json&filter=upstream_cx_total&type=Counters");
  assert.deepEqual(counters, { stats: [{ name, value: 3 }] });
  const gauges = await ask("/stats?type=Gauges&usedonly");
  assert.match(gauges, /^listener\.0\.0\.0\.0_21000\.downstream_cx_active: 2$/m);
  assert.doesNotMatch(gauges, /cx_total|: 0$/m);
  const { stats } = await json("/stats?format=json&type=Histograms&filter=downstream_rq_time");
  const [{ histograms: { supported_quantiles: quantiles, computed_quantiles: [computed] } }] =
    stats;
  assert.equal(computed.name, "http.public_listener.downstream_rq_time");
  assert.equal(computed.values.length, quantiles.length);
  const [least, ...others] = computed.values.map((value: { cumulative: number }) =>
    value.cumulative
  );
  assert.ok(others.every((ms: number) => ms >= least), "quantiles rise");
  const times = "/stats?filter=downstream_rq_time";
  assert.match(
    await ask(times),
    /^http\.public_listener\.downstream_rq_time: P0\(nan,\d.*\) P25\(nan,.* P99\.9\(nan,.* P100\(nan,\d.*\)$/m,
  );
  assert.match(await ask("/stats?filter=traffic_caller_duration_ms"), /\{caller="api"\}: P0\(nan,/);
  for (const [form, last] of [["cumulative", 2], ["disjoint", 0]] as const) {
    const text = await ask(`${times}&histogram_buckets=${form}`);
    assert.match(text, new RegExp(`: B0\\.5\\(nan,\\d+\\) B1.* B3600000\\(nan,${last}\\)$`, "m"));
    const [{ histograms: [shown] }] =
      (await json(`${times}&format=json&histogram_buckets=${form}`)).stats;
    assert.deepEqual(shown.buckets.at(-1), {
      upper_bound: 3_600_000,
      interval: null,
      cumulative: last,
    });
  }
  assert.match(
    await ask("/stats/prometheus?filter=upstream_cx_total"),
    /^envoy_cluster_upstream_cx_total\{.*consul_destination_custom_hash="failover-target~1~1a47f6e1",consul_destination_service="db",.*consul_destination_datacenter="dc2".*\} 3$/m,
  );
});

test("admin POST /reset_counters shows counters from zero, and nothing else", async () => {
  const { view, ask } = admin();
  const counted = /upstream_cx_total: (\d+)$/m;
  assert.equal(counted.exec(await ask("/stats"))?.[1], "3");
  assert.equal(await ask("/reset_counters", { method: "POST" }), "OK\n");
  const after = await ask("/stats");
  assert.equal(counted.exec(after)?.[1], "0");
  assert.match(after, /^listener\.0\.0\.0\.0_21000\.downstream_cx_active: 2$/m);
  // A new worker counts from zero.
  const data = view.data;
  view.data = async () =>
    (await data()).map((path) => ({
      ...path,
      samples: path.samples.map((sample) => ({ ...sample, value: 1 })),
    }));
  assert.equal(counted.exec(await ask("/stats"))?.[1], "1");
});
