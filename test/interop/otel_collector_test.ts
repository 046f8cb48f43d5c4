/** A real OpenTelemetry collector takes traces, metrics, log lines and access records, by every protocol. @module */

import assert from "node:assert/strict";
import test, { after } from "node:test";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import { attributesOf, type CollectedItem, OtelCollector } from "../kit/peers/otel_collector.ts";
import { eventually } from "../kit/process/process.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";

const own = new AsyncDisposableStack();
after(() => own.disposeAsync());

const mesh = own.use(await DevMesh.start({ defaultIntentionPolicy: "allow" }));
const { host } = mesh;
const collector = own.use(await OtelCollector.start(host));
const app = own.use(await startRawOrigin(() => answerOf("hello"), { host }));
for (const Name of ["db", "web"]) {
  await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
}
own.use(await mesh.serve({ name: "db", port: app.port }));

for (const protocol of ["http/protobuf", "http/json", "grpc"]) {
  test(`a real collector takes every signal by ${protocol}`, async () => {
    const upstream = { name: "db", ...await mesh.place() };
    const service = `web ${protocol}`;
    const isGrpc = protocol === "grpc";
    await using _web = await mesh.serve({ name: "web", upstreams: [upstream] }, {
      args: ["-logs-access"],
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: isGrpc ? collector.grpcUrl : collector.httpUrl,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_METRIC_EXPORT_INTERVAL: "1000",
        OTEL_SERVICE_NAME: service,
      },
    });
    await eventually("the upstream answers", async () => {
      const reply = await fetch(`http://${host}:${upstream.port}/orders?key=k5tr9`);
      await reply.text();
      return reply.status === 200;
    });
    const ofSignal = (signal: string, items: readonly CollectedItem[]) =>
      items.filter(({ resource, ...one }) =>
        one.signal === signal && resource["service.name"] === service
      ).map(({ item }) => item);
    const found = await eventually("every signal has arrived", async () => {
      const items = await collector.taken();
      const [span] = ofSignal("spans", items);
      const logs = ofSignal("logRecords", items);
      const record = logs.find(({ eventName }) => eventName === "postern.access");
      const line = logs.find(({ body }) => isText(body, "starting"));
      const metric = (wanted: string) =>
        ofSignal("metrics", items).findLast(({ name }) => name === wanted);
      const requests = metric("postern_http_request_duration_seconds");
      const opened = metric("postern_connections_opened_total");
      const build = metric("postern_build_info");
      return span && record && line && requests && opened && build &&
        { span, record, line, requests, opened, build, items };
    });
    assert.equal(found.record["traceId"], found.span["traceId"]);
    assert.equal(found.record["spanId"], found.span["spanId"]);
    assert.ok(isText(found.record["body"], "GET /orders 200"));
    assert.equal(found.record["severityText"], "INFO");
    const { histogram } = found.requests as unknown as OtlpHistogram;
    assert.equal(histogram.aggregationTemporality, 2);
    const counted = histogram.dataPoints.find(({ count }) => Number(count) > 0);
    assert.ok(counted, JSON.stringify(histogram).slice(0, 500));
    assert.equal(counted.bucketCounts.length, counted.explicitBounds.length + 1);
    assert.equal(
      counted.bucketCounts.reduce((sum, one) => sum + Number(one), 0),
      Number(counted.count),
    );
    const { sum } = found.opened as unknown as { readonly sum: Readonly<Record<string, unknown>> };
    assert.deepEqual([sum["isMonotonic"], sum["aggregationTemporality"]], [true, 2]);
    assert.ok("gauge" in found.build);
    const { resource } = found.items.find(({ item }) => item === found.build) ?? {};
    assert.equal(resource?.["service.instance.id"], "web-1-sidecar-proxy");
    assert.ok(!JSON.stringify(found.items).includes("k5tr9"), "a query is shown");
    const { "postern.duration_ms": duration, ...named } = attributesOf(
      found.record["attributes"] as [],
    );
    assert.equal(named["http.response.status_code"], "200");
    assert.ok(Number(duration) > 0);
  });
}

interface OtlpHistogram {
  readonly histogram: {
    readonly aggregationTemporality: number;
    readonly dataPoints: readonly {
      readonly count?: string;
      readonly bucketCounts: readonly string[];
      readonly explicitBounds: readonly number[];
    }[];
  };
}

function isText(body: unknown, text: string): boolean {
  return (body as { readonly stringValue?: string } | undefined)?.stringValue === text;
}
