/** A proxy beside servers keeps its own entries, and is critical soon after it died without a word. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Cluster, startCluster } from "../kit/mesh/cluster.ts";
import { startEcho, waitForEcho } from "../kit/wire/echo.ts";
import { freePort } from "../kit/process/ports.ts";
import { ready } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";

const NODE = "vm-1";
/**
 * The rights of a service identity, and a sign of life on the node, which another client has made.
 */
const rulesOf = (service: string) => `
  service "${service}" { policy = "write" }
  service "${service}-sidecar-proxy" { policy = "write" }
  service_prefix "" { policy = "read" }
  node_prefix "" { policy = "read" }
  session "${NODE}" { policy = "write" }
`;

interface Check {
  readonly CheckID: string;
  readonly Status: string;
}

/** As others see it who look for instances of web. */
async function healthOf(cluster: Cluster): Promise<string> {
  const path = "/v1/health/connect/web";
  const [row] = await cluster.get<readonly { readonly Checks: readonly Check[] }[]>(path);
  const checks = row?.Checks.map(({ CheckID, Status }) => `${CheckID} ${Status}`) ?? ["none"];
  return checks.sort().join(", ");
}

async function untilHealth(cluster: Cluster, want: string, timeoutMs: number): Promise<void> {
  let last = "";
  await eventually(`it is ${want}`, async () => (last = await healthOf(cluster)) === want, {
    timeoutMs,
    everyMs: 100,
  }).catch((error) => assert.fail(`${error}: ${last}`));
}

test("proxies register themselves beside servers, and a killed one is seen within a minute", async () => {
  await using cluster = await startCluster({ acl: true, tls: true });
  const { host } = cluster;
  await cluster.put("/v1/catalog/register", { Node: NODE, Address: host });
  // The registration is merged with config entries like any other.
  await cluster.configEntry({ Kind: "service-defaults", Name: "web", MaxInboundConnections: 7117 });
  await cluster.intention("client", "web", "allow");
  const [appPort, listen, upstream] = [
    await freePort(host),
    await freePort(host),
    await freePort(host),
  ];
  const start = async (service: string, port: number, more: readonly string[]) =>
    cluster.run([
      ...[
        "proxy",
        ...cluster.serverFlags(),
        "-node",
        NODE,
        "-register",
        "-admin-bind",
        "127.0.0.1:0",
      ],
      ...["-service", service, "-service-addr", `${host}:${appPort}`, "-listen", `${host}:${port}`],
      ...more,
    ], { token: await cluster.tokenWithRules(rulesOf(service)) });

  const web = await start("web", listen, []);
  const well = "web-proxy:alive passing, web-proxy:application passing";
  await untilHealth(cluster, well.replace("application passing", "application critical"), 20_000);
  const app = await startEcho({ host, port: appPort });
  await untilHealth(cluster, well, 20_000);
  const asClient = ["-register-id", "a", "-upstream", `web:${host}:${upstream}`];
  const client = await ready(await start("client", await freePort(host), asClient));
  await waitForEcho({ host, port: upstream });
  assert.match((await web.admin("/config_dump")).body, /\b7117\b/);

  web.kill("SIGKILL");
  const killedMs = performance.now();
  await untilHealth(cluster, well.replace("alive passing", "alive critical"), 60_000);
  const seconds = Math.round((performance.now() - killedMs) / 1_000);
  assert.ok(seconds >= 5, `its session had time: ${seconds} s`);

  // Another of the same ids takes over, and takes everything back but the node.
  const next = await ready(await start("web", listen, []));
  await untilHealth(cluster, well, 20_000);
  await waitForEcho({ host, port: upstream });
  assert.deepEqual(await next.stop(), { code: 0, signal: null });
  assert.equal(await healthOf(cluster), "none");
  assert.deepEqual(await client.stop(), { code: 0, signal: null });
  const left = await cluster.get<{ readonly Node: unknown; readonly Services: unknown }>(
    `/v1/catalog/node-services/${NODE}`,
  );
  assert.ok(left.Node);
  assert.equal(left.Services, null);
  assert.deepEqual(await cluster.get(`/v1/session/node/${NODE}`), []);
  await app.close();
});
