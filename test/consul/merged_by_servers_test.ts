/** The same registration, merged by an agent and by a server, is the same to the proxy. */
import assert from "node:assert/strict";
import test from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { Snapshot } from "../../src/snapshot/mod.ts";
import { type Cluster, startCluster } from "../kit/mesh/cluster.ts";
import { agentOf, registrationOf, serversOf, snapshotOf } from "../kit/mesh/live_agents.ts";
import { eventually } from "../kit/process/process.ts";

const ID = "web-1-sidecar-proxy";
const NODE = "vm-1";
const HOST = "10.9.9.9";

const UPSTREAMS = [
  { DestinationName: "db", LocalBindPort: 9191, Config: { connect_timeout_ms: 1_234 } },
  { DestinationName: "api", LocalBindAddress: "127.0.0.2", LocalBindPort: 9192 },
  { DestinationName: "plain", LocalBindSocketPath: "/run/up.sock", LocalBindSocketMode: "0600" },
];
const PROXY = {
  DestinationServiceName: "web",
  DestinationServiceID: "web-1",
  LocalServiceAddress: "127.0.0.1",
  LocalServicePort: 8080,
  Config: { handshake_timeout_ms: 4_321, postern_show_denials: true },
  Upstreams: UPSTREAMS,
};
const SIDECAR = {
  Kind: "connect-proxy",
  ID,
  Address: HOST,
  Port: 20_000,
  Proxy: PROXY,
};

async function configure(cluster: Cluster): Promise<void> {
  const check = { Interval: 20_000_000_000, MaxFailures: 7, EnforcingConsecutive5xx: 99 };
  const entries = [
    {
      Kind: "proxy-defaults",
      Name: "global",
      Config: { protocol: "http", local_connect_timeout_ms: 2_222, local_idle_timeout_ms: 5_555 },
      MeshGateway: { Mode: "none" },
      Expose: { Paths: [{ Path: "/health", LocalPathPort: 8080, ListenerPort: 21_500 }] },
      AccessLogs: { Enabled: true, Type: "stderr", TextFormat: "%START_TIME% %RESPONSE_CODE%" },
      EnvoyExtensions: [{
        Name: "builtin/lua",
        Arguments: { ProxyType: "connect-proxy", Listener: "inbound", Script: "x = 1" },
      }],
    },
    { Kind: "service-defaults", Name: "db", Protocol: "tcp" },
    { Kind: "service-defaults", Name: "api", Protocol: "grpc" },
    {
      Kind: "service-defaults",
      Name: "web",
      Protocol: "http",
      MaxInboundConnections: 77,
      LocalConnectTimeoutMs: 3_333,
      LocalRequestTimeoutMs: 9_999,
      UpstreamConfig: {
        Defaults: {
          ConnectTimeoutMs: 4_444,
          Limits: { MaxConnections: 11, MaxPendingRequests: 12 },
          PassiveHealthCheck: check,
        },
        Overrides: [{ Name: "db", Limits: { MaxConnections: 3 } }],
      },
    },
    { Kind: "mesh", TLS: { Incoming: { TLSMinVersion: "TLSv1_3" } } },
  ];
  for (const entry of entries) await cluster.configEntry(entry);
  await cluster.put("/v1/connect/intentions/exact?source=client&destination=web", {
    Permissions: [{ Action: "allow", HTTP: { PathPrefix: "/a", Methods: ["GET"] } }],
  });
}

/**
 * Registers both ways, under the same ids: by a server's agent on its own node, and in the catalog.
 */
async function register(cluster: Cluster): Promise<string> {
  const app = { ID: "web-1", Address: HOST, Port: 8080 };
  await cluster.put("/v1/agent/service/register", { ...app, Name: "web" });
  await cluster.put("/v1/agent/service/register", { ...SIDECAR, Name: "web-sidecar-proxy" });
  const node = { Node: NODE, Address: HOST };
  await cluster.put("/v1/catalog/register", { ...node, Service: { ...app, Service: "web" } });
  const sidecar = { ...SIDECAR, Service: "web-sidecar-proxy" };
  await cluster.put("/v1/catalog/register", { ...node, Service: sidecar });
  for (const name of ["db", "api", "plain"]) await cluster.register({ name });
  const { Config } = await cluster.get<{ Config: { NodeName: string } }>("/v1/agent/self");
  // An agent syncs the catalog in its own time.
  const path = `/v1/catalog/node-services/${Config.NodeName}?filter=ID=="${ID}"`;
  await eventually("the agent's registration is in the catalog", async () => {
    const { Services } = await cluster.get<{ Services: readonly unknown[] }>(encodeURI(path));
    return Services.length === 1;
  });
  return Config.NodeName;
}

/** Facts that hold for the proxy from either source; each source has a certificate of its own. */
function facts(snapshot: Snapshot): unknown {
  const { credentials, ...rest } = snapshot;
  const { uri, rootPems, trustDomains } = credentials ?? assert.fail("it has no certificate");
  return JSON.parse(
    JSON.stringify({ ...rest, version: 0, credentials: { uri, rootPems, trustDomains } }),
  );
}

test("a configuration merged by a server equals one merged by an agent", async () => {
  await using cluster = await startCluster({ acl: true });
  await configure(cluster);
  const serverNode = await register(cluster);
  const token = await cluster.serviceToken("web");
  const agent = agentOf(cluster, token);
  const asAgent = serversOf(cluster, { node: serverNode, token });
  const asCatalog = serversOf(cluster, { node: NODE, token });
  try {
    const byAgent = await registrationOf(agent, ID);
    assert.equal(byAgent.maxInboundConnections, 77, "central configuration counts");
    assert.equal(byAgent.upstreams.length, 3);
    assert.deepEqual(await registrationOf(asAgent, ID), byAgent);
    assert.deepEqual(await registrationOf(asCatalog, ID), byAgent);

    const snapshot = facts(await snapshotOf(agent, ID));
    assert.deepEqual(facts(await snapshotOf(asAgent, ID)), snapshot);
    assert.deepEqual(facts(await snapshotOf(asCatalog, ID)), snapshot);

    // Templates for transparent proxying come in any order, and are no upstreams of ours.
    await cluster.configEntry({
      Kind: "service-defaults",
      Name: "web",
      Protocol: "http",
      Mode: "transparent",
      UpstreamConfig: { Defaults: { ConnectTimeoutMs: 1 }, Overrides: [{ Name: "far" }] },
    });
    const all = () =>
      Promise.all([agent, asAgent, asCatalog].map((asked) => registrationOf(asked, ID)));
    // An agent merges what it registers: a server merges that again, and shows the change once the
    // agent has written it anew.
    await eventually("everybody sees the same transparent proxy", async () => {
      const [first, ...others] = await all();
      if (first?.mode !== "transparent" || first.maxInboundConnections !== 0) return false;
      return others.every((other) => isDeepStrictEqual(other, first));
    });
  } finally {
    for (const each of [agent, asAgent, asCatalog]) each.close();
  }
});
