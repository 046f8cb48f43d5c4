import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_METRICS } from "../../../test/kit/admin/admin_view.ts";
import { ProxyError } from "../../base/mod.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { readRegistration, warningsOf } from "./registration.ts";
import type { Registration, UpstreamDeclaration } from "../model/values.ts";

const PROXY = { Kind: "connect-proxy", ID: "web-1-sidecar-proxy", Service: "web-sidecar-proxy" };

function registration(proxy: Record<string, unknown>, rest = {}): Registration {
  const json = { ...PROXY, ...rest, Proxy: { DestinationServiceName: "web", ...proxy } };
  return readRegistration(json, "web-1-sidecar-proxy");
}

function upstream(config: unknown, rest = {}): UpstreamDeclaration {
  const row = { DestinationName: "db", LocalBindPort: 9191, Config: config, ...rest };
  const [only] = registration({ Upstreams: [row] }).upstreams;
  assert.ok(only);
  return only;
}

test("readRegistration() reads a minimal sidecar", () => {
  const got = readRegistration(fixture("agent_service"), "web-1-sidecar-proxy");
  assert.deepEqual(got, {
    id: "web-1-sidecar-proxy",
    service: "web",
    proxyService: "web-sidecar-proxy",
    datacenter: "dc1",
    namespace: "default",
    partition: "default",
    bind: { kind: "tcp", host: "127.0.1.3", port: 21200 },
    local: { kind: "tcp", host: "127.0.0.1", port: 18080 },
    mode: "",
    protocol: "tcp",
    localConnectTimeoutMs: 5000,
    handshakeTimeoutMs: 10000,
    maxInboundConnections: 0,
    upstreams: [{
      id: "service:default/default/db",
      kind: "service",
      name: "db",
      namespace: "default",
      partition: "default",
      peer: "",
      datacenter: "",
      bind: { kind: "tcp", host: "127.0.0.1", port: 19191 },
      meshGatewayMode: "",
      protocol: "",
      outlier: {},
    }],
    warnings: [],
  });
});

test("readRegistration() reads values that the agent merged from central configuration", () => {
  const got = readRegistration(fixture("agent_service_merged"), "web-1-sidecar-proxy");
  assert.equal(got.localConnectTimeoutMs, 900);
  assert.equal(got.maxInboundConnections, 77);
  assert.equal(got.protocol, "http");
  assert.equal(got.localRequestTimeoutMs, 2_345);
  assert.equal(got.headBytes, 96 * 1024);
  assert.deepEqual(got.local, { kind: "tcp", host: "127.0.0.5", port: 18080 });
  assert.deepEqual(got.upstreams.map(({ id }) => id), [
    "prepared_query:geo-db",
    "service:default/default/cache?dc=dc2",
    "service:default/default/db",
    "service:default/default/peered?peer=east",
    "service:default/default/sock",
  ]);
  assert.deepEqual(got.exposed, [
    { listenerPort: 21_990, path: "/metrics", localPort: 18_080, protocol: "http" },
  ]);
  const protocols = got.upstreams.map(({ protocol }) => protocol);
  assert.deepEqual(
    protocols,
    ["tcp", "http2", "tcp", "", "http"],
    "a query has no chain to say it",
  );
  const [query, cache, db, , sock] = got.upstreams;
  assert.deepEqual(db?.outlier, {
    maxFailures: 3,
    enforcingPercent: 50,
    intervalMs: 10_000,
    baseEjectionMs: 20_000,
    maxEjectionPercent: 30,
  });
  assert.equal(db?.maxConnections, 9);
  assert.equal(db?.maxPending, undefined, "null counts as unset");
  assert.equal(db?.connectTimeoutMs, 50);
  assert.equal(db?.meshGatewayMode, "none");
  assert.equal(cache?.maxConnections, 0, "zero allows none");
  assert.equal(cache?.maxPending, 5);
  assert.equal(cache?.meshGatewayMode, "remote");
  assert.deepEqual(sock?.bind, { kind: "unix", path: "/run/up.sock", mode: 0o600 });
  assert.equal(query?.kind, "prepared_query");
  assert.equal(query?.meshGatewayMode, "local", "the proxy's own mode is the default");
  assert.deepEqual(query?.bind, { kind: "tcp", host: "127.0.0.1", port: 19194 });
});

test("readRegistration() reads the destinations of metrics", () => {
  const metricsOf = (Config: unknown) => registration({ Config }).metrics;
  assert.equal(metricsOf({ envoy_prometheus_bind_addr: "" }), undefined);
  assert.deepEqual(metricsOf({ envoy_prometheus_bind_addr: "0.0.0.0:20200" }), {
    ...NO_METRICS,
    prometheusBindAddr: "0.0.0.0:20200",
  });
  assert.deepEqual(
    metricsOf({
      envoy_stats_bind_addr: ":1239",
      envoy_statsd_url: "$STATSD",
      envoy_dogstatsd_url: "udp://${HOST_IP}:8125",
      envoy_stats_flush_interval: "1s",
      envoy_stats_tags: ["foo=bar", "canary"],
    }),
    {
      prometheusBindAddr: "",
      statsBindAddr: ":1239",
      statsdUrl: "$STATSD",
      dogstatsdUrl: "udp://${HOST_IP}:8125",
      flushInterval: "1s",
      tags: ["foo=bar", "canary"],
    },
  );
  assert.deepEqual(metricsOf({ envoy_stats_tags: "foo=bar" })?.tags, ["foo=bar"]);
});

test("readRegistration() skips upstreams that are templates of a transparent proxy", () => {
  const got = readRegistration(fixture("agent_service_tproxy"), "web-1-sidecar-proxy");
  assert.equal(got.mode, "transparent");
  assert.deepEqual(got.upstreams, []);
});

test("readRegistration() sorts upstreams by name", () => {
  const rows = ["b", "a", "c"].map((name, at) => ({
    DestinationName: name,
    LocalBindPort: 1 + at,
  }));
  const ids = registration({ Upstreams: rows }).upstreams.map(({ name }) => name);
  assert.deepEqual(ids, ["a", "b", "c"]);
  assert.deepEqual(registration({ Upstreams: rows.reverse() }).upstreams.map((u) => u.name), ids);
});

test("readRegistration() reads the service whose checks are exposed", () => {
  const of = (DestinationServiceID: string) =>
    registration({ Expose: { Checks: true }, DestinationServiceID });
  assert.deepEqual([of("web-1").exposesChecksOf, of("").exposesChecksOf], ["web-1", "web"]);
  assert.deepEqual([of("web-1").exposed, of("web-1").warnings], [undefined, []]);
  assert.equal(registration({}).exposesChecksOf, undefined);
});

for (
  const [name, proxy, rest, want] of [
    ["takes the registered address", {}, { Address: "10.0.0.5", Port: 21000 }, ["10.0.0.5", 21000]],
    ["binds every address without one", {}, { Port: 21000 }, ["0.0.0.0", 21000]],
    [
      "prefers bind_address and bind_port",
      { Config: { bind_address: "127.0.0.9", bind_port: "21999" } },
      { Address: "10.0.0.5", Port: 21000 },
      ["127.0.0.9", 21999],
    ],
    ["has no listener without a port", {}, {}, ["0.0.0.0", 0]],
    ["ignores a bind_port of zero", { Config: { bind_port: 0 } }, { Port: 5 }, ["0.0.0.0", 5]],
  ] as const
) {
  test(`readRegistration() ${name}`, () => {
    const { bind } = registration(proxy, rest);
    assert.deepEqual([bind.host, bind.port], want);
  });
}

for (
  const [name, config, want] of [
    ["nothing", {}, {}],
    ["timeouts of requests", {
      local_request_timeout_ms: "1500",
      local_idle_timeout_ms: 0,
    }, { localRequestTimeoutMs: 1_500, localIdleTimeoutMs: 0 }],
    ["no timeout below zero", { local_request_timeout_ms: -1 }, {}],
    ["the size of heads", { max_request_headers_kb: 96 }, { headBytes: 98_304 }],
    ["a limit for heads of 8 MiB at most", { max_request_headers_kb: 99_999 }, {
      headBytes: 8_388_608,
    }],
    ["no limit for heads below one", { max_request_headers_kb: 0 }, {}],
    ["showDenials", { postern_show_denials: "code" }, { showDenials: "code" }],
    ["showDenials from central configuration", { PosternShowDenials: "Off" }, {
      showDenials: "off",
    }],
    ["showDenials as a flag", { postern_show_denials: true }, { showDenials: "rule" }],
    ["showDenials as the text of a flag", { PosternShowDenials: "TRUE" }, { showDenials: "rule" }],
    ["a flag that is not set", { postern_show_denials: "0" }, { showDenials: "off" }],
    ["nothing from an unknown word", { postern_show_denials: "maybe" }, {}],
  ] as const
) {
  test(`readRegistration() reads for HTTP: ${name}`, () => {
    const read = registration({ Config: config });
    const { localRequestTimeoutMs, localIdleTimeoutMs, headBytes, showDenials } = read;
    const got = { localRequestTimeoutMs, localIdleTimeoutMs, headBytes, showDenials };
    assert.deepEqual(JSON.parse(JSON.stringify(got)), want);
  });
}

for (
  const [name, given, want] of [
    ["none", undefined, undefined],
    ["none", null, undefined],
    ["a disabled one as none", { Enabled: false, Type: "file" }, undefined],
    ["one without settings", { Enabled: true }, {
      disableListenerLogs: false,
      type: "",
      path: "",
      jsonFormat: "",
      textFormat: "",
    }],
    ["one with every setting", {
      Enabled: true,
      DisableListenerLogs: true,
      Type: "file",
      Path: "/var/log/web.log",
      JSONFormat: '{"a":"%PROTOCOL%"}',
      TextFormat: "%PROTOCOL%",
    }, {
      disableListenerLogs: true,
      type: "file",
      path: "/var/log/web.log",
      jsonFormat: '{"a":"%PROTOCOL%"}',
      textFormat: "%PROTOCOL%",
    }],
  ] as const
) {
  test(`readRegistration() reads access logs: ${name}`, () => {
    assert.deepEqual(registration({ AccessLogs: given }).accessLogs, want);
  });
}

for (
  const [name, config, want] of [
    ["numbers as text", { connect_timeout_ms: "1500" }, { connectTimeoutMs: 1500 }],
    ["a zero timeout as unset", { connect_timeout_ms: 0 }, {}],
    ["snake_case limits", { limits: { max_connections: "12" } }, { maxConnections: 12 }],
    ["CamelCase limits", { limits: { MaxPendingRequests: 0 } }, { maxPending: 0 }],
    ["a limit of requests", { limits: { max_concurrent_requests: "9" } }, { maxRequests: 9 }],
    ["the documented key of two spellings", {
      limits: { MaxConnections: 1, max_connections: 2 },
    }, { maxConnections: 2 }],
    ["null limits", { limits: null }, {}],
    ["a query interval as text", { prepared_query_interval: "1m30s" }, { queryIntervalMs: 90_000 }],
    ["a query interval in nanoseconds", { prepared_query_interval: 2_000_000_000 }, {
      queryIntervalMs: 2_000,
    }],
    ["idle and lifetime limits", { idle_timeout_ms: 0, max_connection_lifetime_ms: "60000" }, {
      idleTimeoutMs: 0,
      lifetimeMs: 60_000,
    }],
    ["passive health in text durations", {
      passive_health_check: { interval: "5s", max_failures: "2" },
    }, {
      outlier: { intervalMs: 5_000, maxFailures: 2 },
    }],
    ["passive health in the spelling of service-defaults", {
      passive_health_check: {
        Interval: 7_000_000_000,
        MaxFailures: 3,
        EnforcingConsecutive5xx: 50,
        MaxEjectionPercent: 40,
        BaseEjectionTime: 4_000_000_000,
      },
    }, {
      outlier: {
        intervalMs: 7_000,
        maxFailures: 3,
        enforcingPercent: 50,
        maxEjectionPercent: 40,
        baseEjectionMs: 4_000,
      },
    }],
    ["passive health that never ejects", {
      passive_health_check: { enforcing_consecutive_5xx: 0, base_ejection_time: 0 },
    }, { outlier: { enforcingPercent: 0 } }],
  ] as const
) {
  test(`readRegistration() reads ${name}`, () => {
    const { connectTimeoutMs, maxConnections, maxPending, maxRequests, queryIntervalMs, ...rest } =
      upstream(config);
    const got = {
      connectTimeoutMs,
      maxConnections,
      maxPending,
      maxRequests,
      queryIntervalMs,
      idleTimeoutMs: rest.idleTimeoutMs,
      lifetimeMs: rest.lifetimeMs,
      outlier: rest.outlier,
    };
    const none = {
      connectTimeoutMs: undefined,
      maxConnections: undefined,
      maxPending: undefined,
      maxRequests: undefined,
      queryIntervalMs: undefined,
      idleTimeoutMs: undefined,
      lifetimeMs: undefined,
      outlier: {},
    };
    assert.deepEqual(got, { ...none, ...want });
  });
}

for (
  const [name, proxy, pattern] of [
    [
      "an invalid number",
      { Config: { local_connect_timeout_ms: "soon" } },
      /local_connect_timeout_ms "soon"/,
    ],
    ["a negative limit", { Config: { max_inbound_connections: -1 } }, /max_inbound_connections -1/],
    [
      "raw Envoy configuration",
      { Config: { envoy_public_listener_json: "{}" } },
      /envoy_public_listener_json/,
    ],
    [
      "balance_inbound_connections",
      { Config: { balance_inbound_connections: "exact_balance" } },
      /balance_inbound_connections "exact_balance", which is ignored: the kernel/,
    ],
    ["configuration that is not a map", { Config: [1] }, /is no map/],
    ["an unknown kind of upstream", {
      Upstreams: [{ DestinationName: "x", DestinationType: "odd", LocalBindPort: 1 }],
    }, /"x" is ignored: its type "odd"/],
    ["Envoy configuration of an upstream", {
      Upstreams: [{ DestinationName: "x", LocalBindPort: 1, Config: { envoy_cluster_json: "{}" } }],
    }, /Upstream "x" has envoy_cluster_json/],
    ["an invalid socket mode", {
      Upstreams: [{ DestinationName: "x", LocalBindSocketPath: "/s", LocalBindSocketMode: "rw" }],
    }, /LocalBindSocketMode "rw"/],
  ] as const
) {
  test(`readRegistration() warns of ${name}`, () => {
    const got = registration(proxy);
    const warnings = warningsOf(got);
    assert.equal(warnings.length, 1, warnings.join("; "));
    assert.match(warnings[0] ?? "", pattern);
    assert.equal(got.localConnectTimeoutMs, 5000);
    assert.equal(got.maxInboundConnections, 0);
  });
}

test("readRegistration() uses mode 0600 for a socket with an invalid mode", () => {
  const { bind } = upstream({}, { LocalBindSocketPath: "/s", LocalBindSocketMode: "999" });
  assert.deepEqual(bind, { kind: "unix", path: "/s", mode: 0o600 });
});

for (
  const [name, json, code, pattern] of [
    ["the service itself", fixture("agent_service_app"), "usage", /-sidecar-for/],
    ["a gateway", { Kind: "mesh-gateway", ID: "g", Proxy: {} }, "unsupported", /mesh-gateway/],
    ["a proxy for nothing", { ...PROXY, Proxy: {} }, "agent_reply_invalid", /destination/],
    ["a text for a port", { ...PROXY, Port: "x", Proxy: {} }, "agent_reply_invalid", /Port/],
    ["a port out of range", { ...PROXY, Port: 65536, Proxy: {} }, "agent_reply_invalid", /Port/],
    ["a list", [], "agent_reply_invalid", /reply/],
    ["nothing", null, "agent_reply_invalid", /reply/],
  ] as const
) {
  test(`readRegistration() refuses ${name}`, () => {
    assert.throws(() => readRegistration(json, "x"), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, code);
      assert.match(error.message, pattern);
      return true;
    });
  });
}
