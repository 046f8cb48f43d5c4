import assert from "node:assert/strict";
import { test } from "node:test";
import * as v from "valibot";
import { FILE_LOGS, FILE_METRICS, FILE_TRACING } from "./file_tracing.ts";

for (
  const [given, wanted] of [
    [{ to: "http://c:4318" }, {
      collector: { format: "otlp_protobuf", url: "http://c:4318/v1/traces", headers: {} },
    }],
    [{ to: "https://c/otlp", headers: { "API-Key": "k" }, caFile: "/ca.pem", sample: "1%" }, {
      collector: {
        format: "otlp_protobuf",
        url: "https://c/otlp",
        headers: { "api-key": "k" },
        files: { ca: "/ca.pem" },
      },
      ratio: 0.01,
    }],
    [{ to: "http://c:4317", protocol: "grpc", connections: true, service: "front" }, {
      collector: { format: "otlp_grpc", url: "http://c:4317/", headers: {} },
      connections: true,
      service: "front",
    }],
    [{ to: "http://c:9411/api/v2/spans", propagators: ["b3multi"] }, {
      collector: { format: "zipkin_json", url: "http://c:9411/api/v2/spans", headers: {} },
      propagation: { read: ["b3multi"], write: ["b3multi"], writesCarried: false },
    }],
  ] as const
) {
  test(`tracing of a configuration file: ${JSON.stringify(given)}`, () =>
    assert.deepEqual(v.parse(FILE_TRACING, given), wanted));
}

for (
  const [given, reason] of [
    [{ to: "c:4318" }, /want an address such as/],
    [{ to: "http://a:b@c" }, /user and a password/],
    [{ to: "http://c", sample: "2" }, /share such as 1%/],
    [{ to: "http://c", propagators: ["jaeger"] }, /tracecontext, b3, b3multi, datadog/],
    [{ to: "http://c", protocol: "kafka" }, /http.protobuf, http.json, grpc/],
  ] as const
) {
  test(`tracing of a configuration file refuses ${JSON.stringify(given)}`, () =>
    assert.throws(() => v.parse(FILE_TRACING, given), reason));
}

test("metrics and logs of a configuration file", () => {
  const collector = { format: "otlp_json", headers: {} };
  const to = { to: "http://c:4318", protocol: "http/json" };
  assert.deepEqual(v.parse(FILE_METRICS, { ...to, interval: "10s", service: "front" }), {
    collector: { ...collector, url: "http://c:4318/v1/metrics" },
    intervalMs: 10_000,
    service: "front",
  });
  assert.deepEqual(v.parse(FILE_LOGS, { ...to, access: true }), {
    collector: { ...collector, url: "http://c:4318/v1/logs" },
    access: true,
  });
  assert.throws(() => v.parse(FILE_METRICS, { ...to, interval: "1ms" }), /from 1000ms/);
  assert.throws(() => v.parse(FILE_LOGS, { ...to, sample: "1%" }), /not known here/);
});
