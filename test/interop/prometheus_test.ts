/**
 * What Postern serves, read by a real Prometheus: the queries of HashiCorp's dashboards for Consul, of the
 * topology in Consul's UI, and of our own dashboard and rules have data.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test, { after } from "node:test";
import { fileURLToPath } from "node:url";
import { consulSource } from "../../scripts/consul.ts";
import { peer } from "../../scripts/peers.ts";
import { loadUiProvider, type UiStat } from "../kit/peers/consul_ui_metrics.ts";
import { lintMetrics, panelsOf, Prometheus } from "../kit/peers/prometheus.ts";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";

const OBSERVE = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "scripts", "observe");
const ALERTS = join(OBSERVE, "alerts.yaml");
const HELLO = new TextEncoder().encode("hello");

const own = new AsyncDisposableStack();
after(() => own.disposeAsync());

// `web` calls `db` over HTTP, and `cache` over TCP.
const mesh = own.use(await DevMesh.start({ defaultIntentionPolicy: "allow" }));
const { host } = mesh;
const app = own.use(
  await startRawOrigin(({ head }) => {
    const [, status = "200"] = /^GET \/(\d+)/.exec(head) ?? [];
    return answerOf("app", `HTTP/1.1 ${status} Some`);
  }, { host }),
);
const echo = own.use(await mesh.echo());
for (const Name of ["db", "web"]) {
  await mesh.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
}
const [http, tcp, webPublic] = [await mesh.place(), await mesh.place(), await mesh.place()];
const [db, cache, web] = await Promise.all([
  mesh.serve({ name: "db", port: app.port }),
  mesh.serve({ name: "cache", port: echo.port }),
  mesh.serve({
    name: "web",
    sidecarPort: webPublic.port,
    upstreams: [{ name: "db", port: http.port }, { name: "cache", port: tcp.port }],
  }),
]);
const sidecars = { db: own.use(db), cache: own.use(cache), web: own.use(web) };
await waitForEcho(tcp);
const targets = await Promise.all(
  Object.entries(sidecars).map(async ([name, sidecar]) => ({
    address: await sidecar.adminAddress(),
    // As Prometheus has them of pods.
    labels: { app: name, service: name, namespace: "default", kubernetes_namespace: "default" },
  })),
);
const prometheus = own.use(await Prometheus.start(host, targets, { rules: [ALERTS] }));
await eventually("all are scraped", async () => {
  const [up] = await prometheus.query("sum(up)");
  return up?.value?.[1] === String(targets.length);
});
const open = await EchoClient.open(tcp);
own.defer(() => open.destroy());

/** Rates need a value that grows between two scrapes. */
async function traffic(): Promise<void> {
  await open.exchange(HELLO);
  await waitForEcho(tcp);
  for (const status of [200, 201, 404, 500]) {
    const reply = await fetch(`http://${host}:${http.port}/${status}`);
    await reply.body?.cancel();
  }
}

/** Queries without data, while there is traffic, until there are none or for a while. */
async function emptyAmong(
  queries: readonly { readonly title: string; readonly query: string }[],
): Promise<readonly string[]> {
  let left = queries;
  await eventually("all have data", async () => {
    await traffic();
    const results = await Promise.all(left.map(async (panel) => {
      const result = await prometheus.query(panel.query);
      return result.some(({ value }) => value !== undefined && value[1] !== "NaN") ? [] : [panel];
    }));
    left = results.flat();
    return left.length === 0;
  }, { timeoutMs: 60_000, everyMs: 200 }).catch(() => {});
  return left.map(({ title, query }) => `${title}: ${query}`);
}

test("promtool finds nothing in the metrics of sidecars", async () => {
  await traffic();
  for (const [name, sidecar] of Object.entries(sidecars)) {
    assert.deepEqual(lintMetrics((await sidecar.admin("/stats/prometheus")).body), [], name);
  }
});

/** Queries of the dashboards that nothing of the mesh's proxies answers. */
const NOT_OF_THE_PROXY = [
  // Kubernetes has these metrics, and Loki the logs.
  /container_|kube_/,
  /count_over_time|rate\(\{/,
  // Envoy's overload manager, which Postern has not: its limits are in the query beside it.
  /envoy_listener_downstream_cx_overload_reject/,
];

/** Choices of a person in front of the dashboard. */
const CHOSEN: Readonly<Record<string, string>> = {
  service: "db|cache|web",
  cluster: "db|cache|local_app",
  namespace: "default",
  source_service: "db|web",
  destination_service: "db",
  __interval: "1m",
  __rate_interval: "1m",
  instance: ".+",
};

const chosen = (query: string) =>
  query.replace(/\$\{?(\w+)\}?/g, (whole, name) => CHOSEN[name] ?? whole);

for (
  const [name, atLeast] of [
    ["consuldataplanedashboard.json", 13],
    ["consulservicedashboard.json", 19],
    ["consulservicetoservicedashboard.json", 13],
  ] as const
) {
  test(`every panel of Consul's ${name} that is about proxies has data`, async () => {
    const text = await readFile(join(await consulSource(), "grafana", name), "utf8");
    const panels = panelsOf(text).map(({ title, query }) => ({ title, query: chosen(query) }))
      .filter(({ query }) => !NOT_OF_THE_PROXY.some((pattern) => pattern.test(query)));
    assert.ok(panels.length >= atLeast, `only ${panels.length}`);
    assert.deepEqual(await emptyAmong(panels), []);
  });
}

test("every panel of our dashboard has data", async () => {
  const panels = panelsOf(await readFile(join(OBSERVE, "postern.json"), "utf8"));
  assert.ok(panels.length >= 39, `only ${panels.length}`);
  assert.deepEqual(
    await emptyAmong(panels.map(({ title, query }) => ({ title, query: chosen(query) }))),
    [],
  );
});

test("our alert rules fire when they should, and Prometheus takes them", async () => {
  const promtool = (...args: readonly string[]) =>
    runToEnd(peer("promtool"), args, { timeoutMs: 30_000, cwd: OBSERVE });
  // Debian's Prometheus is built without the discovery of Consul.
  const config = await readFile(join(OBSERVE, "prometheus.yml"), "utf8");
  const directory = await mkdtemp(join(tmpdir(), "postern-observe-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const checked = join(directory, "prometheus.yml");
  await writeFile(
    checked,
    config.replace(/consul_sd_configs:\s+- server: (\S+)/, "static_configs: [targets: [$1]]")
      .replace("alerts.yaml", ALERTS),
  );
  await promtool("check", "config", checked);
  await promtool("test", "rules", "alerts_test.yaml");
  const alerts = await eventually("all rules were evaluated", async () => {
    const rules = await prometheus.rules();
    return rules.every(({ health }) => health !== "unknown") && rules;
  });
  assert.ok(alerts.length >= 18, `only ${alerts.length}`);
  assert.deepEqual(alerts.filter(({ health }) => health !== "ok"), []);
});

test("the topology of Consul's UI has its metrics", async () => {
  const provider = await loadUiProvider(await consulSource(), prometheus.url);
  const at = { dc: "dc1", namespace: "default" };
  const measured = (stats: readonly UiStat[] = []) =>
    // An array of this context: the script's are of its own.
    [...stats].filter(({ value }) => !/^(?:-|0%?)$/.test(value)).map(({ label }) => label);
  await eventually("all of it is there", async () => {
    await traffic();
    const requests = await provider.series({ ...at, service: "db", protocol: "http" });
    assert.deepEqual(requests, ["Errors", "Successes"]);
    const bytes = await provider.series({ ...at, service: "cache", protocol: "tcp" });
    assert.deepEqual(bytes, ["Inbound", "Outbound"]);
    const ofDb = await provider.service({ ...at, service: "db", protocol: "http" });
    assert.deepEqual(measured(ofDb), ["RPS", "ER", "P50", "P99"]);
    const ofCache = await provider.service({ ...at, service: "cache", protocol: "tcp" });
    assert.deepEqual(measured(ofCache), ["CR", "RX", "TX"]);
    const upstreams = await provider.upstreams({ ...at, service: "web" });
    assert.deepEqual(measured(upstreams["db.default.dc1"]), ["RPS", "ER", "P50", "P99"]);
    assert.deepEqual(measured(upstreams["cache.default.dc1"]), ["CR", "RX", "TX"]);
    const callers = await provider.downstreams({ ...at, service: "db" });
    assert.deepEqual(measured(callers["web.default.dc1"])?.slice(0, 4), [
      "RPS",
      "ER",
      "P50",
      "P99",
    ]);
    return true;
  }, { timeoutMs: 60_000, everyMs: 200 });
});

test("a Prometheus that asks for native histograms gets those of the traffic table, and exemplars", async () => {
  const features = ["native-histograms", "exemplar-storage"];
  await using native = await Prometheus.start(host, targets, { features });
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const name = "postern_traffic_endpoint_duration_seconds";
  await eventually("the histogram and the exemplar are there", async () => {
    const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
    const reply = await fetch(`http://${host}:${http.port}/200`, { headers });
    await reply.body?.cancel();
    const [median] = await native.query(
      `histogram_quantile(0.5, sum(rate(${name}{upstream="db"}[30s])))`,
    );
    const seconds = Number(median?.value?.[1]);
    if (!(seconds > 0 && seconds < 1)) return false;
    return (await native.tracesOf(`${name}{upstream="db"}`)).includes(trace);
  }, { timeoutMs: 30_000, everyMs: 200 });
  assert.equal((await native.query(`${name}_bucket`)).length, 0, "it is a native one");
  assert.ok((await prometheus.query(`${name}_bucket`)).length > 0, "others get buckets");
});
