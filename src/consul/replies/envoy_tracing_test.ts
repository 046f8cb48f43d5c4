import assert from "node:assert/strict";
import { test } from "node:test";
import { readEnvoyTracing } from "./envoy_tracing.ts";

function cluster(name: string, port: number, more: object = {}): object {
  const socketAddress = { address: "collector.internal", port_value: port };
  const endpoint = { address: { socket_address: socketAddress } };
  const endpoints = [{ lb_endpoints: [{ endpoint }] }];
  return { name, type: "STRICT_DNS", load_assignment: { endpoints }, ...more };
}

const CLUSTERS = [cluster("zipkin", 9411), cluster("otel", 4317)];

function read(tracing: unknown, listener?: unknown, clusters: readonly unknown[] = CLUSTERS) {
  const warnings: string[] = [];
  const text = (value: unknown) => value === undefined ? undefined : JSON.stringify(value);
  const texts = { tracing: text(tracing), listener: text(listener), clusters };
  return { ...readEnvoyTracing(texts, warnings), warnings };
}

/** As Consul's documentation has it. */
const ZIPKIN = {
  http: {
    name: "envoy.tracers.zipkin",
    typedConfig: {
      "@type": "type.googleapis.com/envoy.config.trace.v3.ZipkinConfig",
      collector_cluster: "zipkin",
      collector_endpoint_version: "HTTP_JSON",
      collector_endpoint: "/api/v2/spans",
      shared_span_context: false,
    },
  },
};

function otlp(config: object): object {
  const type = "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig";
  return {
    http: { name: "envoy.tracers.opentelemetry", typed_config: { "@type": type, ...config } },
  };
}

test("Envoy's Zipkin tracer sends to its cluster, and writes B3", () => {
  const { choice, cluster, warnings } = read(ZIPKIN);
  assert.deepEqual(warnings, []);
  assert.equal(cluster, "zipkin");
  assert.deepEqual(choice?.collector, {
    format: "zipkin_json",
    url: "http://collector.internal:9411/api/v2/spans",
    headers: {},
  });
  assert.deepEqual(choice?.propagation?.write, ["b3multi"]);
  // Consul lets only the caller ask for a trace.
  assert.equal(choice?.ratio, 0);
});

test("Envoy's OpenTelemetry tracer sends OTLP by HTTP or gRPC", () => {
  const http = read(otlp({
    service_name: "front",
    http_service: {
      http_uri: { uri: "https://any/v1/traces?x", cluster: "otel", timeout: "0.25s" },
      request_headers_to_add: [{ header: { key: "API-Key", value: "k" } }],
    },
  }));
  assert.deepEqual(http.warnings, []);
  assert.deepEqual([http.choice?.service, http.choice?.collector], ["front", {
    format: "otlp_protobuf",
    url: "http://collector.internal:4317/v1/traces",
    headers: { "api-key": "k" },
  }]);
  const grpc = read(otlp({
    grpc_service: {
      envoy_grpc: { cluster_name: "otel" },
      timeout: "1s",
      initial_metadata: [{ key: "tenant", value: "t" }],
    },
  }));
  assert.deepEqual(grpc.warnings, []);
  assert.deepEqual(grpc.choice?.collector, {
    format: "otlp_grpc",
    url: "http://collector.internal:4317/",
    headers: { tenant: "t" },
  });
});

test("the listener's tracing has the shares and may have the tracer", () => {
  const { choice, warnings } = read(undefined, {
    "@type": "type.googleapis.com/...HttpConnectionManager.Tracing",
    provider: { name: ZIPKIN.http.name, typed_config: ZIPKIN.http.typedConfig },
    random_sampling: { value: 12.5 },
    custom_tags: [{ tag: "a", literal: { value: "b" } }],
  });
  assert.deepEqual([choice?.ratio, choice?.atMost], [0.125, 1]);
  assert.deepEqual(warnings, [
    "The proxy's config has envoy_listener_tracing_json.custom_tags, which is ignored: it is not " +
    "followed",
  ]);
  assert.equal(read(ZIPKIN, { overall_sampling: { value: 0 } }).choice?.atMost, 0);
});

for (
  const [name, tracing, clusters, reason] of [
    [
      "another tracer",
      { http: { name: "envoy.tracers.datadog", typed_config: {} } },
      CLUSTERS,
      "datadog is not followed",
    ],
    ["no tracer", { stats: 1 }, CLUSTERS, "names no tracer"],
    ["a missing cluster", ZIPKIN, [], '"zipkin" is not in envoy_extra_static_clusters_json'],
    [
      "a cluster with TLS",
      ZIPKIN,
      [cluster("zipkin", 1, { transport_socket: {} })],
      "transport_socket",
    ],
    ["a cluster without an address", ZIPKIN, [{ name: "zipkin" }], "no socket_address"],
    ["no object", 7, CLUSTERS, "no object in JSON"],
    ["Google's gRPC", otlp({ grpc_service: { google_grpc: {} } }), CLUSTERS, "envoy_grpc"],
  ] as const
) {
  test(`readEnvoyTracing() names ${name}, and there is no tracing`, () => {
    const { choice, warnings } = read(tracing, undefined, clusters);
    assert.equal(choice, undefined);
    assert.ok(warnings.join("\n").includes(reason), warnings.join("\n"));
  });
}

test("a field that is not followed is named without its value", () => {
  const { typedConfig } = ZIPKIN.http;
  const config = { ...typedConfig, shared_span_context: true, trace_context_option: "secret" };
  const { warnings } = read({ http: { name: "envoy.tracers.zipkin", typed_config: config } });
  assert.equal(warnings.length, 2);
  assert.match(warnings.join(), /shared_span_context.*trace_context_option/);
  assert.doesNotMatch(warnings.join(), /secret/);
});
