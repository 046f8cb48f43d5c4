/**
 * `postern dataplane` in place of consul-dataplane: started with its arguments, beside real servers with
 * ACLs and TLS, and sent the requests of orchestrators.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SERVER_NAME, startCluster } from "../kit/mesh/cluster.ts";
import { EchoClient, type Place, waitForEcho } from "../kit/wire/echo.ts";
import { lintMetrics } from "../kit/peers/prometheus.ts";
import { loginsOf } from "../kit/mesh/login.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { freePorts, loopbackHost } from "../kit/process/ports.ts";
import { type Postern, posternCommand, ready, startPostern } from "../kit/process/postern.ts";
import { eventually, runToEnd } from "../kit/process/process.ts";

const SOON = { timeoutMs: 30_000 };
const HELLO = new TextEncoder().encode("hello");

const directory = await mkdtemp(join(tmpdir(), "postern-dataplane-"));
const cluster = await startCluster({ acl: true, tls: true });

/** The arguments of consul-dataplane; only the port for HTTP is not among them. */
async function dataplane(
  id: string,
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<Postern> {
  const file = join(directory, `${id}.id`);
  await writeFile(file, `${id}-sidecar-proxy`);
  return startPostern([
    "dataplane",
    ...["-addresses", cluster.members[0]?.host ?? "", `-grpc-port=${cluster.grpcPort}`],
    ...[`-proxy-service-id-path=${file}`, "-log-level=", "-log-json=false"],
    ...["-xds-bind-addr=127.0.0.1", "-credential-type=static"],
    ...[`-tls-server-name=${SERVER_NAME}`, `-ca-certs=${cluster.tls.caFile}`],
    ...words,
  ], {
    env: {
      DP_SERVICE_NODE_NAME: cluster.nodeOf(id),
      DP_CREDENTIAL_STATIC_TOKEN: await cluster.serviceToken(id.replace(/-\d$/, "")),
      POSTERN_HTTP_PORT: `${cluster.httpPort}`,
      // The variables of other tools have no effect.
      CONSUL_HTTP_TOKEN: "another",
      CONSUL_NAMESPACE: "another",
      ...env,
    },
  });
}

function ask({ host, port }: Place, path: string, method = "GET") {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ host, port, path, method, agent: false }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

test("it runs a sidecar as consul-k8s starts it, is measured, goes on for its grace period and ends", async () => {
  const host = loopbackHost();
  const [admin = 0, graceful = 0, probe = 0, scrape = 0, merge = 0] = await freePorts(host, 5);
  const application = createServer((_request, reply) => reply.end("app_jobs 3\n"));
  await new Promise<void>((resolve) => application.listen(0, host, resolve));
  const { port } = application.address() as AddressInfo;
  const lifecycle = { host, port: graceful };
  const logins = loginsOf(cluster, { directory });
  await logins.create();
  await logins.bearer();
  try {
    let asked: Promise<{ status: number; body: string }> | undefined;
    await using pair = await startMeshPair(cluster, {
      webConfig: { envoy_prometheus_bind_addr: `${host}:${scrape}` },
      web: async (_cluster, id) => {
        const started = await dataplane(id, [
          ...["-envoy-admin-bind-address=127.0.0.1", `-envoy-admin-bind-port=${admin}`],
          ...[`-graceful-addr=${host}`, `-graceful-port=${graceful}`, "-envoy-concurrency=2"],
          ...["-shutdown-drain-listeners", "-shutdown-grace-period-seconds=3"],
          ...["-startup-grace-period-seconds=30", `-envoy-ready-bind-port=${probe}`],
          `-telemetry-prom-merge-port=${merge}`,
          `-telemetry-prom-service-metrics-url=http://${host}:${port}/`,
          ...["-credential-type=login", "-login-auth-method=jwt"],
          `-login-bearer-token-path=${logins.file}`,
          ...["-consul-dns-bind-port=8600", "--", "--base-id", "7"],
        ], {
          DP_ENVOY_READY_BIND_ADDRESS: host,
          DP_CREDENTIAL_STATIC_TOKEN: undefined,
          DP_CREDENTIAL_LOGIN_META1: "pod=default/web-1",
        });
        await started.process.waitFor(/lifecycle server listening/, SOON);
        asked = ask(lifecycle, "/graceful_startup");
        return await ready(started);
      },
    });
    const { web, upstream } = pair;
    const [login, ...more] = await logins.tokens();
    assert.match(login?.Description ?? "", /"pod":"default\/web-1"/);
    assert.deepEqual(more, []);
    assert.equal((await asked)?.status, 200);
    await waitForEcho(upstream);
    assert.deepEqual(await ask({ host, port: probe }, "/ready"), { status: 200, body: "LIVE\n" });

    const page = await eventually("metrics are served", async () => {
      const { status, body } = await ask({ host, port: scrape }, "/metrics");
      return status === 200 && body;
    });
    for (
      const line of [
        /^app_jobs 3$/m,
        /^consul_dataplane_consul_connected 1$/m,
        /^consul_dataplane_envoy_connected 1$/m,
        /^postern_snapshot_version [1-9]/m,
        /^envoy_/m,
      ]
    ) assert.ok(line.test(page), `${line}`);

    assert.deepEqual(lintMetrics(page.replace(/^app_jobs.*\n/m, "")), []);

    // The request of a startup probe in the container, by the name that it knows.
    const probed = join(directory, "consul-dataplane");
    const [executable, ...source] = posternCommand();
    if (executable && source.length === 0) {
      await symlink(executable, probed);
      await runToEnd(probed, ["-check-proxy-health"], {
        ...SOON,
        env: { DP_ENVOY_ADMIN_BIND_PORT: `${admin}` },
      });
    }

    await using own = new AsyncDisposableStack();
    const open = await EchoClient.open(upstream);
    own.defer(() => open.destroy());
    await open.exchange(HELLO);
    web.expectEnd();
    const toldMs = performance.now();
    assert.equal((await ask(lifecycle, "/graceful_shutdown", "POST")).status, 200);
    await web.process.waitFor(/grace period begins/, SOON);
    // Calls of the application go on, new ones, too, and probes see no difference.
    assert.equal((await ask({ host, port: probe }, "/ready", "HEAD")).status, 200);
    await open.exchange(HELLO);
    await waitForEcho(upstream);
    assert.deepEqual(await web.process.waitExit(SOON), { code: 0, signal: null });
    const tookMs = performance.now() - toldMs;
    assert.deepEqual(await logins.tokens(), []);
    assert.ok(tookMs >= 3_000 && tookMs < 10_000, `it took ${Math.round(tookMs)} ms`);
    for (
      const what of ["-xds-bind-addr", "-consul-dns-bind-port", '\\\\?"--base-id 7\\\\?" after --']
    ) assert.match(web.output, new RegExp(`WARN.*${what} does nothing`));
  } finally {
    application.close();
  }
});

test("it runs from a file, finds servers by a command, and accepts a node name that is a path", async () => {
  const host = loopbackHost();
  const [admin = 0, graceful = 0, own = 0] = await freePorts(host, 3);
  const Node = "arn:aws:ecs:us-east-1:1:cluster/c";
  await cluster.put("/v1/catalog/register", {
    Node,
    Address: host,
    NodeMeta: { "synthetic-node": "true" },
    Service: {
      Kind: "connect-proxy",
      ID: "pay-1-sidecar-proxy",
      Service: "pay-sidecar-proxy",
      Address: host,
      Port: own,
      Proxy: { DestinationServiceName: "pay", DestinationServiceID: "pay-1" },
    },
  });
  const file = join(directory, "ecs.json");
  await writeFile(
    file,
    JSON.stringify({
      consul: {
        addresses: `exec=/bin/echo ${cluster.members[0]?.host}`,
        grpcPort: cluster.grpcPort,
        serverWatchDisabled: false,
        tls: { disabled: false, caCertsPath: cluster.tls.caFile, tlsServerName: SERVER_NAME },
        credentials: { type: "static", static: { token: await cluster.serviceToken("pay") } },
      },
      proxy: { nodeName: Node, id: "pay-1-sidecar-proxy", namespace: "", partition: "" },
      xdsServer: { bindAddress: "127.0.0.1" },
      envoy: { adminBindPort: admin, gracefulAddr: host, gracefulPort: graceful },
      logging: { logLevel: "INFO" },
    }),
  );
  await using postern = await ready(startPostern(["dataplane", "-config-file", file], {
    env: { POSTERN_HTTP_PORT: `${cluster.httpPort}` },
  }));
  postern.kill("SIGTERM");
  assert.deepEqual(await postern.process.waitExit(SOON), { code: 0, signal: null });
});

for (
  const [what, proxy, reason] of [
    [
      "a transparent proxy",
      { Mode: "transparent" },
      /Mode \\?"transparent\\?" is not supported yet/,
    ],
    ["a mesh gateway", undefined, /mesh-gateway/],
  ] as const
) {
  test(`it reports that it cannot be ${what}, and ends with 1 without a grace period`, async () => {
    const host = loopbackHost();
    const [admin, graceful, own] = await freePorts(host, 3);
    const id = proxy ? "far-1" : "gate-1";
    await cluster.put("/v1/catalog/register", {
      Node: cluster.nodeOf(id),
      Address: host,
      Service: {
        ID: `${id}-sidecar-proxy`,
        Address: host,
        Port: own,
        ...proxy
          ? {
            Kind: "connect-proxy",
            Service: "far-sidecar-proxy",
            Proxy: { DestinationServiceName: "far", ...proxy },
          }
          : { Kind: "mesh-gateway", Service: "gate" },
      },
    });
    await using postern = await dataplane(id, [
      ...[
        `-envoy-admin-bind-port=${admin}`,
        `-graceful-addr=${host}`,
        `-graceful-port=${graceful}`,
      ],
      "-shutdown-grace-period-seconds=600",
    ]);
    postern.expectEnd();
    assert.equal((await postern.process.waitExit(SOON)).code, 1);
    assert.match(postern.output, reason);
  });
}

test("it names the flag for the servers' HTTP port where that is missing", async () => {
  const host = loopbackHost();
  const [admin, graceful] = await freePorts(host, 2);
  await using postern = await dataplane("web-1", [
    `-envoy-admin-bind-port=${admin}`,
    `-graceful-addr=${host}`,
    `-graceful-port=${graceful}`,
  ], { POSTERN_HTTP_PORT: undefined });
  await postern.process.waitFor(
    /:8501: .*; -http-port \(POSTERN_HTTP_PORT\)/,
    SOON,
  );
  assert.deepEqual(await postern.stop(), { code: 0, signal: null });
});

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the servers end", async () => {
  await cluster[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});
