import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { recordingLog } from "../../../test/kit/engine/path_pair.ts";
import { startTestCollector } from "../../../test/kit/wire/collector.ts";
import { Stats, systemClock, systemRandom } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import type { TelemetryPart } from "../../snapshot/mod.ts";
import { Telemetry } from "./telemetry.ts";

const RECORD = {
  timeMs: 1_700_000_000_000,
  level: "warn",
  message: "cannot reach http://user:pw@db",
  fields: { attempts: 3, ratio: 0.5, again: true, error: new Error("refused"), gone: undefined },
} as const;

function start(url: string, changes: Partial<TelemetryPart> = {}) {
  const stats = new Stats();
  const { log, lines } = recordingLog();
  const telemetry = new Telemetry({
    clock: systemClock,
    random: systemRandom,
    log,
    stats,
    engine: runtimeEngine(),
    version: "9.9.9",
    env: { KUBERNETES_SERVICE_HOST: "10.0.0.1", POD_NAME: "web-7", POD_NAMESPACE: "shop" },
    view: () => fakeAdminView(),
  });
  const collector = (path: string) => ({
    collector: { format: "otlp_json", url: url + path, headers: {} } as const,
    service: "web",
    resource: { "service.namespace": "shop" },
  });
  const set = () =>
    telemetry.set({
      tracing: null,
      telemetry: {
        version: 1,
        metrics: { ...collector("/v1/metrics"), intervalMs: 60_000 },
        logs: { ...collector("/v1/logs"), access: false },
        ...changes,
      },
      proxyId: "web-sidecar-proxy",
      datacenter: "dc1",
      credentials: null,
    });
  const counts = () =>
    Object.fromEntries(
      stats.samples().map(({ name, labels, value }) =>
        [[name, ...Object.values(labels)].join(" "), value] as const
      ),
    );
  return { telemetry, set, counts, lines };
}

test("lines from before the first configuration go to the collector with their fields", async () => {
  await using collector = await startTestCollector();
  const { telemetry, set, counts } = start(collector.url, { metrics: null });
  telemetry.takeLine(RECORD);
  set();
  await telemetry.close();
  const [{ url, body } = { url: "", body: {} }] = collector.taken;
  assert.equal(url, "/v1/logs");
  const { resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] } = body as {
    readonly resourceLogs: readonly [{
      readonly resource: { readonly attributes: readonly { readonly key: string }[] };
      readonly scopeLogs: readonly [{ readonly logRecords: unknown }];
    }];
  };
  const attributes = JSON.stringify(resource.attributes);
  for (const wanted of ["service.namespace", "k8s.pod.name", "web-7", "web-sidecar-proxy"]) {
    assert.ok(attributes.includes(wanted), wanted);
  }
  assert.deepEqual(logRecords, [{
    timeUnixNano: "1700000000000000000",
    observedTimeUnixNano: "1700000000000000000",
    severityNumber: 13,
    severityText: "WARN",
    body: { stringValue: "cannot reach http://(not shown)@db" },
    attributes: [
      { key: "attempts", value: { intValue: "3" } },
      { key: "ratio", value: { doubleValue: 0.5 } },
      { key: "again", value: { boolValue: true } },
      { key: "error", value: { stringValue: "refused" } },
    ],
  }]);
  assert.equal(counts()["log_records_exported_total"], 1);
});

test("the last metrics are sent at the end of the process", async () => {
  await using collector = await startTestCollector();
  const { telemetry, set, counts } = start(collector.url, { logs: null });
  set();
  await telemetry.close();
  assert.deepEqual(collector.taken.map(({ url }) => url), ["/v1/metrics"]);
  assert.ok((counts()["metric_points_exported_total"] ?? 0) > 0);
});

test("a collector without a pipeline for logs loses them, counted, and the log says what to do", async () => {
  await using collector = await startTestCollector({ answers: [[404, {}]] });
  const { telemetry, set, counts, lines } = start(collector.url, { metrics: null });
  set();
  for (let line = 0; line < 10_000; line++) telemetry.takeLine(RECORD);
  await telemetry.close();
  const { ["log_records_exported_total"]: exported = 0, ...lost } = counts();
  const dropped = Object.values(lost).reduce((sum, count) => sum + count, 0);
  assert.ok(dropped > 0);
  assert.equal(exported + dropped, 10_000);
  assert.match(
    JSON.stringify(lines),
    /logs are not taken by the collector.*404; it has no pipeline/,
  );
});

test("a proxy without a collector loads no exporter and keeps nothing", async () => {
  const { telemetry, counts } = start("http://127.0.0.1:1");
  telemetry.set({
    tracing: null,
    telemetry: null,
    proxyId: "web",
    datacenter: "dc1",
    credentials: null,
  });
  telemetry.takeLine(RECORD);
  await telemetry.close();
  assert.deepEqual(counts(), {});
});
