import assert from "node:assert/strict";
import { test } from "node:test";
import { Buffer } from "node:buffer";
import { recordingLog } from "../../../test/kit/engine/path_pair.ts";
import { startTestCollector } from "../../../test/kit/wire/collector.ts";
import { Stats, systemClock, systemRandom } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import type { TelemetryCollector } from "../../snapshot/mod.ts";
import { Exporter } from "./exporter.ts";
import { spanOutbox } from "./outbox.ts";

const SPAN: FinishedSpan = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  parentId: "00f067aa0ba902b7",
  isSampled: true,
  name: "ingress db",
  kind: "server",
  startMs: 1_700_000_000_000.25,
  durationMs: 12.5,
  attributes: ["url.path", "/x", "http.response.status_code", 503],
  events: [{ name: "retry", afterMs: 2, attributes: ["postern.attempt", 2] }],
  error: "endpoint_refused",
};

function startExporter(collector: TelemetryCollector) {
  const stats = new Stats();
  const { log, lines } = recordingLog();
  const exporter = new Exporter("spans", {
    clock: systemClock,
    random: systemRandom,
    log,
    stats,
    engine: runtimeEngine(),
  });
  const attributes = {
    "service.name": "db",
    "service.instance.id": "db-sidecar-proxy",
    "deployment.environment": "test",
  };
  exporter.set({ collector, origin: { version: "9.9.9", attributes } });
  let lostBefore = 0;
  const outbox = spanOutbox(systemClock, (batch) => {
    exporter.take(batch, lostBefore);
    return Promise.resolve();
  });
  const give = ({ lost } = { lost: 0 }) => {
    lostBefore = lost;
    outbox.take(SPAN, { format: collector.format, service: "db" });
    outbox.flush();
  };
  const counts = () =>
    Object.fromEntries(
      stats.samples().map(({ name, labels, value }) =>
        [Object.values(labels ?? {}).join() || name, value] as const
      ),
    );
  return { exporter, give, counts, lines };
}

test("OTLP carries a span with its resource, after the collector has refused it for a moment", async () => {
  await using collector = await startTestCollector({ answers: [[503, { "retry-after": "0" }]] });
  const { exporter, give, counts, lines } = startExporter({
    format: "otlp_json",
    url: `${collector.url}/v1/traces`,
    headers: { "x-api-key": "k" },
  });
  give();
  // The first try is the one of `close`, which does not repeat it.
  await exporter.close();
  assert.deepEqual(counts(), { unreachable: 1, spans_exported_total: 0 });
  assert.match(JSON.stringify(lines), /the collector answered 503/);

  const second = startExporter({
    format: "otlp_json",
    url: `${collector.url}/v1/traces`,
    headers: { "x-api-key": "k" },
  });
  second.give({ lost: 3 });
  await second.exporter.close();
  assert.deepEqual(second.counts(), { worker_full: 3, spans_exported_total: 1 });
  const { url, headers, body } = collector.taken.at(-1) ?? {};
  assert.deepEqual([url, headers?.["x-api-key"]], ["/v1/traces", "k"]);
  const { resourceSpans: [{ resource, scopeSpans: [{ scope, spans }] }] } = body as OtlpBody;
  assert.deepEqual(scope, { name: "postern", version: "9.9.9" });
  const names = resource.attributes.map(({ key }) => key);
  assert.deepEqual(names.slice(0, 2), ["service.name", "service.instance.id"]);
  assert.ok(names.includes("deployment.environment"));
  assert.deepEqual(spans, [{
    traceId: SPAN.traceId,
    spanId: SPAN.spanId,
    parentSpanId: SPAN.parentId,
    flags: 0x301,
    name: "ingress db",
    kind: 2,
    startTimeUnixNano: "1700000000000250000",
    endTimeUnixNano: "1700000000012750000",
    attributes: [
      { key: "url.path", value: { stringValue: "/x" } },
      { key: "http.response.status_code", value: { intValue: "503" } },
    ],
    events: [{
      name: "retry",
      timeUnixNano: "1700000000002250000",
      attributes: [{ key: "postern.attempt", value: { intValue: "2" } }],
    }],
    status: { code: 2, message: "endpoint_refused" },
  }]);
});

test("OTLP in Protocol Buffers has the same members, with bytes and numbers", async () => {
  await using collector = await startTestCollector();
  const url = `${collector.url}/v1/traces`;
  const { exporter, give } = startExporter({ format: "otlp_protobuf", url, headers: {} });
  give();
  give();
  await exporter.close();
  const [{ body, headers } = { body: {}, headers: undefined }] = collector.taken;
  assert.equal(headers?.["content-type"], "application/x-protobuf");
  const { resourceSpans: [{ scopeSpans: [{ scope, spans }] }] } = body as OtlpBody;
  assert.deepEqual(scope, { name: "postern", version: "9.9.9" });
  const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, "hex"));
  const [first, ...others] = spans as readonly Readonly<Record<string, Uint8Array>>[];
  assert.equal(others.length, 1);
  const { traceId, spanId, parentSpanId, ...rest } = first ?? {};
  const ids = [traceId, spanId, parentSpanId].map((id) => new Uint8Array(id ?? []));
  assert.deepEqual(ids, [SPAN.traceId, SPAN.spanId, SPAN.parentId].map(bytesOf));
  assert.deepEqual(rest, {
    flags: 0x301,
    name: "ingress db",
    kind: 2,
    startTimeUnixNano: "1700000000000250000",
    endTimeUnixNano: "1700000000012750000",
    attributes: [
      { key: "url.path", value: { stringValue: "/x" } },
      { key: "http.response.status_code", value: { intValue: 503 } },
    ],
    events: [{
      name: "retry",
      timeUnixNano: "1700000000002250000",
      attributes: [{ key: "postern.attempt", value: { intValue: 2 } }],
    }],
    status: { code: 2, message: "endpoint_refused" },
  });
});

interface OtlpBody {
  readonly resourceSpans: readonly [{
    readonly resource: { readonly attributes: readonly { readonly key: string }[] };
    readonly scopeSpans: readonly [{ readonly scope: unknown; readonly spans: unknown }];
  }];
}

test("Zipkin's form has microseconds and texts", async () => {
  await using collector = await startTestCollector();
  const url = `${collector.url}/api/v2/spans`;
  const { exporter, give } = startExporter({ format: "zipkin_json", url, headers: {} });
  give();
  await exporter.close();
  assert.deepEqual(collector.taken.map(({ body }) => body), [[{
    traceId: SPAN.traceId,
    id: SPAN.spanId,
    parentId: SPAN.parentId,
    name: "ingress db",
    kind: "SERVER",
    timestamp: 1_700_000_000_000_250,
    duration: 12_500,
    localEndpoint: { serviceName: "db" },
    annotations: [{ timestamp: 1_700_000_000_002_250, value: "retry postern.attempt=2" }],
    tags: { "url.path": "/x", "http.response.status_code": "503", error: "endpoint_refused" },
  }]]);
});

test("a collector that is away loses spans, which are counted, and nothing waits", async () => {
  const headers = {};
  // Nothing listens on port 1.
  const url = "http://127.0.0.1:1/v1/traces";
  const { exporter, counts, lines } = startExporter({ format: "otlp_json", url, headers });
  for (let i = 0; i < 40; i++) {
    exporter.take({ signal: "spans", format: "otlp_json", count: 250, body: "{}" }, 0);
  }
  await exporter.close();
  const { queue_full = 0, unreachable = 0, closed = 0, spans_exported_total } = counts();
  assert.equal(queue_full + unreachable + closed, 10_000);
  assert.equal(spans_exported_total, 0);
  assert.match(JSON.stringify(lines), /spans are not taken by the collector/);
});
