import { strict as assert } from "node:assert";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as requestPlain } from "node:http";
import { request as requestSecure, type RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fakeAdminView, NO_METRICS } from "../../../test/kit/admin/admin_view.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { freePorts, loopbackHost } from "../../../test/kit/process/ports.ts";
import type { AdminAnswer, AskAdmin } from "../../admin/mod.ts";
import { type LogFields, silentLog } from "../../base/mod.ts";
import type { SourceStatus } from "../../source/mod.ts";
import { DataplaneMetrics } from "./metrics.ts";
import type { MetricsOptions } from "./options.ts";

interface Pair {
  readonly certPem: string;
  readonly keyPem: string;
}

async function rig(
  options: Partial<MetricsOptions> = {},
  ask: AskAdmin = () => Promise.reject(new Error("there is no admin server")),
) {
  const host = loopbackHost();
  const [port = 0, other = 0, mergePort = 0] = await freePorts(host, 3);
  const base = fakeAdminView();
  const state = {
    metrics: undefined as SourceStatus["metrics"],
    samples: [{ ...gauge("server_connected"), value: 1 }],
  };
  const view = {
    ...base,
    samples: () => state.samples,
    source: () => {
      const source = base.source();
      assert.ok(source);
      return { ...source, ...(state.metrics && { metrics: state.metrics }) };
    },
  };
  const lines: [string, LogFields | undefined][] = [];
  const write = (text: string, fields?: LogFields) => void lines.push([text, fields]);
  const log = { ...silentLog, warn: write, error: write };
  const metrics = new DataplaneMetrics(
    { useCentralConfig: true, scrapePath: "/metrics", mergePort, ...options },
    { view, log, ask },
  );
  const want = (bound: number | string) => {
    const prometheusBindAddr = typeof bound === "number" ? `${host}:${bound}` : bound;
    state.metrics = { ...NO_METRICS, prometheusBindAddr };
    return metrics.look();
  };
  return {
    metrics,
    view,
    state,
    lines,
    host,
    port,
    other,
    mergePort,
    want,
    get: (port: number, path: string) => get(requestPlain, { host, port, path }),
    [Symbol.asyncDispose]: () => metrics.close(),
  };
}

function gauge(name: string) {
  return { name, kind: "gauge" as const, help: "of it", labels: {}, value: 0 };
}

function get(request: typeof requestPlain, options: RequestOptions) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ agent: false, ...options }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

test("DataplaneMetrics follows the address in central configuration", async () => {
  await using it = await rig();
  const { metrics, host, port, other, mergePort } = it;
  await metrics.look();
  assert.equal(metrics.addresses.length, 0);
  await it.want(port);
  assert.deepEqual(metrics.addresses.map((place) => [place.host, place.port]), [
    [host, port],
    ["127.0.0.1", mergePort],
  ]);
  const { status, body } = await it.get(port, "/metrics?x=y");
  assert.equal(status, 200);
  assert.match(body, /^postern_connections_total\{direction="inbound"\} 6$/m);
  assert.match(body, /^consul_dataplane_consul_connected 1$/m);
  assert.match(body, /^consul_dataplane_envoy_connected 1$/m);
  assert.ok(!body.includes("application_metrics_up"));
  const merged = await get(requestPlain, {
    host: "127.0.0.1",
    port: mergePort,
    path: "/stats/prometheus",
  });
  assert.equal(merged.body, body);
  assert.equal((await it.get(port, "/stats/prometheus")).status, 404);
  await it.want(other);
  await assert.rejects(it.get(port, "/metrics"));
  assert.equal((await it.get(other, "/metrics")).status, 200);
  it.state.metrics = undefined;
  await metrics.look();
  await assert.rejects(it.get(other, "/metrics"));
  assert.deepEqual(it.lines, []);
});

test("DataplaneMetrics reads central configuration periodically, unless it is off", async () => {
  for (const useCentralConfig of [true, false]) {
    await using it = await rig({ useCentralConfig });
    it.state.metrics = { ...NO_METRICS, prometheusBindAddr: `${it.host}:${it.port}` };
    await it.view.clock.advance(1_000);
    if (useCentralConfig) await it.metrics.look();
    assert.equal(it.metrics.addresses.length, useCentralConfig ? 2 : 0);
    assert.equal(it.view.clock.pending, useCentralConfig ? 1 : 0, "and again");
    await it.metrics.close();
    assert.equal(it.view.clock.pending, 0);
  }
});

test("DataplaneMetrics logs an unusable address once and serves on the old one", async () => {
  await using it = await rig();
  await it.want(it.port);
  for (let count = 0; count < 2; count++) await it.want("nowhere");
  assert.equal((await it.get(it.port, "/metrics")).status, 200);
  assert.deepEqual(it.lines.map(([text]) => text), [
    "metrics are not served as configured",
  ]);
  assert.match(String(it.lines[0]?.[1]?.error), /envoy_prometheus_bind_addr "nowhere": want host:/);
});

test("DataplaneMetrics binds an address when it becomes free", async () => {
  await using first = await rig();
  await first.want(first.port);
  await using second = await rig({ mergePort: first.other });
  await second.want(`${first.host}:${first.port}`);
  assert.match(String(second.lines[0]?.[1]?.error), /the address is in use/);
  await first.metrics.close();
  await second.metrics.look();
  assert.equal(second.metrics.addresses.length, 2);
});

test("DataplaneMetrics binds both addresses when the one in use becomes free", async () => {
  const [taken = 0] = await freePorts("127.0.0.1", 1);
  await using first = await rig({ mergePort: taken });
  await first.want(first.port);
  await using second = await rig({ mergePort: taken });
  await second.want(second.port);
  assert.match(String(second.lines[0]?.[1]?.error), /the address is in use/);
  await first.metrics.close();
  await second.metrics.look();
  assert.deepEqual([second.metrics.addresses.length, second.lines.length], [2, 1]);
});

const URL_OF = { serviceUrl: new URL("http://127.0.0.1:9102/app/metrics?a=b") };
const answers = (answer: Partial<AdminAnswer>): AskAdmin => () =>
  Promise.resolve({ status: 200, body: "", ...answer });

test("DataplaneMetrics appends the application's metrics", async () => {
  const requests: unknown[] = [];
  await using it = await rig(URL_OF, (place, question) => {
    requests.push([place, question.path]);
    return Promise.resolve({ status: 200, body: "# TYPE app_a counter\napp_a 7" });
  });
  const { body } = await it.metrics.page();
  assert.deepEqual(requests, [[{ host: "127.0.0.1", port: 9102 }, "/app/metrics?a=b"]]);
  assert.match(body, /\n# TYPE app_a counter\napp_a 7\n$/);
  assert.match(body, /^postern_application_metrics_up 1$/m);
});

for (
  const [name, ask, reason] of [
    ["do not come", () => Promise.reject(new Error("refused")), /^refused$/],
    ["are an error", answers({ status: 500, body: "app_a 7\n" }), /^status 500$/],
    ["are no metrics", answers({ body: "<html>app_a" }), /not in the form/],
    ["do not end", answers({ body: "app_a 7\n".repeat((1 << 20) + 1) }), /more than 8 MiB/],
  ] as readonly (readonly [string, AskAdmin, RegExp])[]
) {
  test(`DataplaneMetrics serves the proxy's metrics alone when the application's ${name}`, async () => {
    await using it = await rig(URL_OF, ask);
    for (let count = 0; count < 2; count++) {
      const { status, body } = await it.metrics.page();
      assert.equal(status, 200);
      assert.match(body, /^postern_connections_total/m);
      assert.match(body, /^postern_application_metrics_up 0$/m);
      assert.ok(!body.includes("app_a"));
      assert.equal(it.lines.length, 1);
    }
    assert.match(String(it.lines[0]?.[1]?.error), reason);
    assert.equal(it.lines[0]?.[1]?.url, "http://127.0.0.1:9102/app/metrics");
  });
}

test("DataplaneMetrics sends the application one request for concurrent collectors and waits at most 4 s", async () => {
  let requests = 0;
  await using it = await rig(URL_OF, () => {
    requests++;
    return new Promise(() => {});
  });
  const pages = [it.metrics.page(), it.metrics.page()];
  await it.view.clock.advance(4_000);
  for (const page of pages) assert.match((await page).body, /^postern_application_metrics_up 0$/m);
  assert.equal(requests, 1);
  await it.metrics.close();
  assert.equal(it.view.clock.pending, 0);
});

test("DataplaneMetrics requires a client certificate of its CA, and follows changed files", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-metrics-"));
  try {
    const [ca, other] = [createAuthority(), createAuthority()];
    const files = {
      ca: join(directory, "ca"),
      cert: join(directory, "c"),
      key: join(directory, "k"),
    };
    const write = async ({ certPem, keyPem }: Pair) => {
      await writeFile(files.cert, certPem);
      await writeFile(files.key, keyPem);
    };
    await writeFile(files.ca, ca.rootPem);
    await write(ca.issueLeaf({ service: "web" }));
    await using it = await rig({ tls: files });
    await it.want(it.port);
    const statusFor = async (client: Pair | undefined, by = ca) => {
      const { status } = await get(requestSecure, {
        host: it.host,
        port: it.port,
        path: "/metrics",
        ca: by.rootPem,
        checkServerIdentity: () => undefined,
        ...(client && { cert: client.certPem, key: client.keyPem }),
      });
      return status;
    };
    const collector = ca.issueLeaf({ service: "prometheus" });
    assert.equal(await statusFor(collector), 200);
    assert.equal(await statusFor(undefined), 403);
    assert.equal(await statusFor(other.issueLeaf({ service: "prometheus" })), 403);
    await assert.rejects(it.get(it.port, "/metrics"));
    await writeFile(files.ca, "no certificate");
    await it.metrics.look();
    assert.equal(await statusFor(collector), 200);
    assert.match(String(it.lines[0]?.[1]?.error), /there is no CA certificate/);
    await writeFile(files.ca, ca.rootPem);
    // Only a half of the new pair is written: the old pair stays in use.
    const next = other.issueLeaf({ service: "web" });
    await writeFile(files.cert, next.certPem);
    await it.metrics.look();
    assert.equal(await statusFor(collector), 200);
    assert.match(String(it.lines[1]?.[1]?.error), /the key is that of another certificate/);
    await write(next);
    await it.metrics.look();
    assert.equal(await statusFor(collector, other), 200);
    await assert.rejects(statusFor(collector));
  } finally {
    await rm(directory, { recursive: true });
  }
});
