import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { request } from "node:http";
import { test } from "node:test";
import { fakeAdminView, NO_METRICS } from "../../../test/kit/admin/admin_view.ts";
import { freePorts, loopbackHost } from "../../../test/kit/process/ports.ts";
import { type LogFields, silentLog, Stats } from "../../base/mod.ts";
import type { SourceStatus } from "../../source/mod.ts";
import { MetricSinks } from "./metric_sinks.ts";
import { readAddress, startStatsd } from "./statsd_sink.ts";

function rig({ prometheus = true, env = {} as Record<string, string> } = {}) {
  const base = fakeAdminView();
  const stats = new Stats();
  const state = { metrics: undefined as SourceStatus["metrics"], counted: 3 };
  const view = {
    ...base,
    data: async () =>
      (await base.data()).slice(0, 1).map((path) => ({
        ...path,
        samples: [
          {
            name: "connections_opened_total",
            kind: "counter" as const,
            help: "",
            value: state.counted,
            labels: { direction: "inbound", listener: "inbound" },
          },
          {
            name: "connections_active",
            kind: "gauge" as const,
            help: "",
            value: 2,
            labels: { direction: "inbound", listener: "inbound" },
          },
        ],
      })),
    samples: () => [...base.samples(), ...stats.samples()],
    source: () => {
      const source = base.source();
      assert.ok(source);
      return { ...source, ...(state.metrics && { metrics: state.metrics }) };
    },
  };
  const lines: [string, LogFields | undefined][] = [];
  const write = (text: string, fields?: LogFields) => void lines.push([text, fields]);
  const log = { ...silentLog, warn: write, error: write };
  const sinks = new MetricSinks({ view, stats, log, env, prometheus });
  return { view, state, lines, log, sinks, [Symbol.asyncDispose]: () => sinks.close() };
}

function get(host: string, port: number, path: string) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ agent: false, host, port, path }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

test("MetricSinks serves Prometheus and /stats on the registered addresses, and nothing else", async () => {
  await using it = rig();
  const host = loopbackHost();
  const [scraped = 0, stats = 0] = await freePorts(host, 2);
  it.state.metrics = {
    ...NO_METRICS,
    prometheusBindAddr: `${host}:${scraped}`,
    statsBindAddr: `${host}:${stats}`,
    tags: ["Canary", "team.name=shop"],
  };
  await it.sinks.look();
  const metrics = await get(host, scraped, "/metrics?a=b");
  assert.match(
    metrics.body,
    /^envoy_listener_downstream_cx_total\{.*canary="1",team_name="shop"\} 3$/m,
  );
  assert.match(
    (await get(host, stats, "/stats?filter=downstream_cx_total")).body,
    /^listener\.0\.0\.0\.0_21000\.downstream_cx_total: 3$/m,
  );
  assert.equal((await get(host, stats, "/stats/prometheus")).status, 200);
  const own = (await get(host, stats, "/stats?filter=^http\\.envoy_")).body;
  assert.match(own, /^http\.envoy_metrics\.downstream_rq_active: 1$/m);
  assert.match(own, /^http\.envoy_metrics\.downstream_rq_total: 3$/m);
  assert.match(own, /^http\.envoy_prometheus_metrics\.downstream_rq_total: 1$/m);
  for (
    const [port, path] of [
      [scraped, "/"],
      [scraped, "/stats"],
      [stats, "/config_dump"],
      [stats, "/stats/../config_dump"],
      [stats, "/statsx"],
    ] as const
  ) assert.equal((await get(host, port, path)).status, 404, path);
  it.state.metrics = undefined;
  await it.sinks.look();
  await assert.rejects(get(host, scraped, "/metrics"));
  await assert.rejects(get(host, stats, "/stats"));
  assert.deepEqual(it.lines, []);
});

test("MetricSinks does not serve Prometheus when its caller does", async () => {
  await using it = rig({ prometheus: false });
  const host = loopbackHost();
  const [port = 0] = await freePorts(host, 1);
  it.state.metrics = { ...NO_METRICS, prometheusBindAddr: `${host}:${port}` };
  await it.sinks.look();
  await assert.rejects(get(host, port, "/metrics"));
});

test("MetricSinks sends to an address from a variable at the configured interval", async () => {
  const server = createSocket("udp4");
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
  await using it = rig({ env: { HOST_IP: "127.0.0.1" } });
  try {
    it.state.metrics = {
      ...NO_METRICS,
      dogstatsdUrl: `udp://\${HOST_IP}:${server.address().port}`,
      flushInterval: "2s",
      tags: ["foo=bar"],
    };
    await it.sinks.look();
    // The statistics fill more than one datagram.
    const received = new Promise<string>((resolve) => {
      server.on("message", (datagram) => {
        const lines = String(datagram).split("\n");
        const found = lines.find((line) => line.startsWith("envoy.listener.downstream_cx_total:"));
        if (found) resolve(found);
      });
    });
    await it.view.clock.advance(2_000);
    assert.match(
      await received,
      /^envoy\.listener\.downstream_cx_total:3\|c\|#envoy\.listener_address:0\.0\.0\.0_21000,.*local_cluster:web,.*consul\.source\.service:web,.*foo:bar$/,
    );
    assert.deepEqual(it.lines, []);
  } finally {
    server.close();
  }
});

test("MetricSinks logs an unusable setting once, without the value of a variable", async () => {
  await using it = rig({ env: { TOKEN: "6d3e5a0c-secret" } });
  it.state.metrics = {
    ...NO_METRICS,
    prometheusBindAddr: "nowhere",
    statsdUrl: "$TOKEN",
    dogstatsdUrl: "udp://127.0.0.1:1",
    flushInterval: "soon",
  };
  await it.sinks.look();
  await it.sinks.look();
  const text = JSON.stringify(it.lines);
  assert.equal(it.lines.length, 3);
  assert.match(text, /envoy_prometheus_bind_addr .*nowhere.*: want host:port/);
  assert.match(text, /envoy_stats_flush_interval .*soon.*: want 0\.1s to 300s/);
  assert.ok(!text.includes("secret"));
});

test("Statsd sends the increase of counters and the value of gauges", async () => {
  await using it = rig();
  const datagrams: string[] = [];
  const sender = { send: (text: string) => void datagrams.push(text), close() {} };
  const sink = { key: "envoy_statsd_url", url: "", intervalMs: 1_000 } as const;
  const statsd = startStatsd(sink, { view: it.view, log: it.log }, sender);
  const flushed = async () => {
    datagrams.length = 0;
    await statsd.flush();
    assert.ok(datagrams.every((text) => text.length <= 1_400));
    return datagrams.join("\n").split("\n").filter((line) => /downstream_cx/.test(line));
  };
  const active = "envoy.listener.0.0.0.0_21000.downstream_cx_active:2|g";
  const total = (
    count: number,
  ) => [
    `envoy.listener.0.0.0.0_21000.downstream_cx_total:${count}|c`,
    `envoy.tcp.public_listener.downstream_cx_total:${count}|c`,
  ];
  assert.deepEqual((await flushed()).toSorted(), [active, ...total(3)]);
  assert.deepEqual(await flushed(), [active]);
  it.state.counted = 8;
  assert.deepEqual((await flushed()).toSorted(), [active, ...total(5)]);
  // A new worker counts from zero.
  it.state.counted = 1;
  assert.deepEqual((await flushed()).toSorted(), [active, ...total(1)]);
  statsd.close();
});

for (
  const [key, url, env, want] of [
    ["envoy_statsd_url", "udp://127.0.0.1:8125", {}, "udp 127.0.0.1:8125"],
    ["envoy_statsd_url", "udp://[::1]:8125", {}, "udp ::1:8125"],
    ["envoy_statsd_url", "udp://statsd.local:8125", {}, "udp statsd.local:8125"],
    ["envoy_statsd_url", "$URL", { URL: "udp://127.0.0.1:1" }, "udp 127.0.0.1:1"],
    ["envoy_statsd_url", "udp://$HOST_IP:1", { HOST_IP: "10.0.0.1" }, "udp 10.0.0.1:1"],
    ["envoy_dogstatsd_url", "unix:///run/dsd.sock", {}, "unix /run/dsd.sock"],
    ["envoy_statsd_url", "unix:///run/dsd.sock", {}, "StatsD is sent by UDP only"],
    ["envoy_statsd_url", "udp://${OTHER}:1", { OTHER: "10.0.0.1" }, "it is no such address"],
    ["envoy_statsd_url", "$URL", {}, "the variable is not set"],
    ["envoy_statsd_url", "udp://127.0.0.1", {}, "it is no such address"],
    ["envoy_statsd_url", "tcp://127.0.0.1:1", {}, "it is no such address"],
  ] as const
) {
  test(`readAddress() of ${key} ${url}`, () => {
    const read = () => {
      const address = readAddress({ key, url }, env);
      return address.kind === "udp"
        ? `udp ${address.host}:${address.port}`
        : `unix ${address.path}`;
    };
    if (/^(?:udp|unix) /.test(want)) assert.equal(read(), want);
    else assert.throws(read, new RegExp(want));
  });
}
