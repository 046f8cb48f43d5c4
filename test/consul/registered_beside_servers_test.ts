/** A proxy beside servers keeps its own entries, and is critical soon after it died without a word. */
import assert from "node:assert/strict";
import test from "node:test";
import { registrationOfFlags } from "../../src/source/mod.ts";
import { type Cluster, startCluster } from "../kit/cluster.ts";
import { startEcho } from "../kit/echo.ts";
import { registrationOf, serversOf } from "../kit/live_agents.ts";
import { freePort } from "../kit/ports.ts";
import { eventually } from "../kit/process.ts";

const NODE = "vm-1";
const ID = "web-proxy";
/** What a service identity may, the node's health, and a sign of life on it. */
const RULES = `
  service "web" { policy = "write" }
  service "web-sidecar-proxy" { policy = "write" }
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
  const [row] = await cluster.get<readonly { Checks: readonly Check[] }[]>(
    "/v1/health/connect/web",
  );
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

test("a proxy registers itself beside servers, and a dead one is seen within a minute", async () => {
  await using cluster = await startCluster({ acl: true });
  await cluster.put("/v1/catalog/register", { Node: NODE, Address: "10.0.0.1" });
  await cluster.configEntry({ Kind: "service-defaults", Name: "web", MaxInboundConnections: 77 });
  const token = await cluster.tokenWithRules(RULES);
  const { host } = cluster;
  const [port, listen] = [await freePort(host), await freePort(host)];
  // In the proxy's place.
  const listener = await startEcho({ host, port: listen });
  const start = () => {
    const agent = serversOf(cluster, { node: NODE, token });
    const stop = new AbortController();
    const registration = registrationOfFlags({
      ...{ proxyId: ID, service: "web", upstreams: [] },
      ...{ serviceAddress: { kind: "tcp", host, port }, listen: { host, port: listen } },
    });
    const request = { registration, applicationId: "web", nodeAddress: "", httpCheckPath: "" };
    return { agent, stop, over: agent.keepRegistered(request, { signal: stop.signal }) };
  };

  const first = start();
  await untilHealth(cluster, `${ID}:alive passing, ${ID}:application critical`, 10_000);
  const { maxInboundConnections } = await registrationOf(first.agent, ID);
  assert.equal(maxInboundConnections, 77, "what it registered is merged like any other");
  const app = await startEcho({ host, port });
  await untilHealth(cluster, `${ID}:alive passing, ${ID}:application passing`, 10_000);

  // Cut off as by kill -9: nothing is said any more, nor taken back.
  first.agent.close();
  const diedMs = performance.now();
  await untilHealth(cluster, `${ID}:alive critical, ${ID}:application passing`, 60_000);
  const seconds = Math.round((performance.now() - diedMs) / 1_000);
  assert.ok(seconds >= 5, `it had the time of its session: ${seconds} s`);

  // Another of the same ids takes over, and takes everything back but the node.
  const second = start();
  await untilHealth(cluster, `${ID}:alive passing, ${ID}:application passing`, 10_000);
  second.stop.abort();
  await second.over;
  assert.equal(await healthOf(cluster), "none");
  const left = await cluster.get<{ Node: unknown; Services: unknown }>(
    `/v1/catalog/node-services/${NODE}`,
  );
  assert.ok(left.Node);
  assert.equal(left.Services, null);
  assert.deepEqual(await cluster.get(`/v1/session/node/${NODE}`), []);
  second.agent.close();
  await first.over;
  await app.close();
  await listener.close();
});
