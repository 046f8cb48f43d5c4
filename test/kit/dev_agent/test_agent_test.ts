import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { AgentClient } from "../../conformance/agent/client.ts";
import { FakeClock } from "../clock/clock.ts";
import { eventually } from "../consul/scripted_agent.ts";
import { seededRandom } from "../../../src/base/mod.ts";
import { parseCertificate } from "../../../src/identity/mod.ts";
import { parsePem } from "../../../src/wire/mod.ts";
import { registerService, setIntention } from "./control.ts";
import { startTestAgent, type TestAgent, type TestAgentOptions } from "./test_agent.ts";

async function started(options: Partial<TestAgentOptions> = {}) {
  const clock = new FakeClock();
  const probes = { tcp: () => Promise.resolve("ok"), http: () => Promise.resolve("ok") };
  const agent = await startTestAgent({ clock, random: seededRandom(1), probes, ...options });
  const client = new AgentClient({ host: "127.0.0.1", port: agent.port, managementToken: "" });
  return { agent, client, clock, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
}

/** Starts a poll and lets time pass once it waits. */
async function whileWaiting(
  agent: TestAgent,
  act: () => Promise<void>,
  seen: number,
): Promise<void> {
  await eventually(() => agent.load.requests >= seen, `request ${seen}`);
  await act();
}

interface Leaf {
  readonly SerialNumber: string;
  readonly CertPEM: string;
}

test("a leaf is renewed between 60 % and 90 % of its life, and a poll hears of it", async () => {
  await using it = await started({ leafTtlMs: 3_600_000 });
  const path = "/v1/agent/connect/ca/leaf/web";
  const { index, text } = await it.client.get(path);
  await it.clock.advance(0.55 * 3_600_000);
  assert.equal((await it.client.get(path)).index, index);
  let last = index;
  for (let polls = 0; last === index; polls++) {
    assert.ok(polls < 4, "not renewed after 90 %");
    const seen = it.agent.load.requests + 1;
    const poll = it.client.get(`${path}?index=${index}&wait=10m`);
    await whileWaiting(it.agent, () => it.clock.advance(600_000), seen);
    last = (await poll).index;
  }
  const now = await it.client.get(path);
  assert.ok(now.index > index);
  assert.notEqual((JSON.parse(now.text) as Leaf).CertPEM, (JSON.parse(text) as Leaf).CertPEM);
});

test("a rotation gives new leaves at once, and the old root stays until it is pruned", async () => {
  await using it = await started();
  const read = async () =>
    JSON.parse((await it.client.get("/v1/agent/connect/ca/leaf/web")).text) as Leaf;
  const before = await read();
  await it.client.put("/v1/connect/ca/configuration", {
    Provider: "consul",
    Config: { PrivateKeyBits: 256 },
  });
  const after = await read();
  assert.notEqual(after.CertPEM, before.CertPEM);
  assert.equal(after.CertPEM.match(/BEGIN CERTIFICATE/g)?.length, 2);
  it.agent.world.ca.prune();
  const roots = await it.client.json<{ Roots: unknown[] }>("/v1/agent/connect/ca/roots");
  assert.equal(roots.Roots.length, 1);
});

test("a restart keeps the data, a forgetful one has another CA and low indexes", async () => {
  await using it = await started();
  registerService(it.agent.world, { Name: "web", Port: 1, Connect: { SidecarService: {} } });
  for (let change = 0; change < 5; change++) {
    setIntention(it.agent.world, "web", "db", { Action: change % 2 === 0 ? "allow" : "deny" });
  }
  // The first results of the checks are in.
  await it.clock.advance(1);
  const { port, world: { ca: { trustDomain } } } = it.agent;
  const match = "/v1/connect/intentions/match?by=destination&name=db";
  const { index } = await it.client.get(match);
  await it.agent.restart();
  assert.equal(it.agent.port, port);
  await it.client.get("/v1/agent/service/web");
  assert.equal((await it.client.get(match)).index, index);
  await it.agent.restart({ rewind: true });
  assert.ok((await it.client.get(match)).index < index);
  await it.client.get("/v1/agent/service/web");
  await it.agent.restart({ forget: true });
  assert.notEqual(it.agent.world.ca.trustDomain, trustDomain);
  assert.equal((await it.client.call("GET", "/v1/agent/service/web")).status, 404);
});

test("a serial is written byte by byte, also where it has more than one", async () => {
  await using it = await started();
  for (let issued = 0; issued < 256; issued++) {
    const leaf = await it.client.json<Leaf>(`/v1/agent/connect/ca/leaf/service-${issued}`);
    const [block] = parsePem(leaf.CertPEM, { what: "leaf" });
    assert.ok(block);
    assert.equal(leaf.SerialNumber, parseCertificate(block.der).serial);
  }
});

test("stopping breaks waiting polls; starting listens on the same port", async () => {
  await using it = await started();
  const poll = it.client.get("/v1/agent/connect/ca/roots?index=1000&wait=5m");
  await whileWaiting(it.agent, () => Promise.resolve(it.agent.stop()), 1);
  await assert.rejects(poll);
  await assert.rejects(it.client.get("/v1/agent/version"));
  await it.agent.start();
  await it.client.get("/v1/agent/version");
});

test("a poll whose client has gone leaves no connection and no timer", async () => {
  await using it = await started();
  const controller = new AbortController();
  const idle = it.clock.pending;
  const gone = fetch(`${it.agent.address}/v1/health/connect/web?index=1000&wait=5m`, {
    signal: controller.signal,
  });
  await whileWaiting(it.agent, () => Promise.resolve(controller.abort()), 1);
  await assert.rejects(gone);
  // A client that ends its half may still read: it is taken for gone a moment later.
  await eventually(() => {
    void it.clock.advance(100);
    return it.agent.load.connections === 0;
  }, "its connection ends");
  assert.equal(it.clock.pending, idle);
});

test("planned faults spoil their requests, as often as planned", async () => {
  await using it = await started();
  const path = "/v1/agent/connect/ca/roots";
  it.agent.breakNext(/GET .*roots/, { kind: "status", status: 500, text: "No cluster leader" }, 2);
  for (let time = 0; time < 2; time++) {
    const reply = await it.client.call("GET", path);
    assert.deepEqual([reply.status, reply.text], [500, "No cluster leader"]);
  }
  const whole = (await it.client.get(path)).text;
  it.agent.breakNext(/roots/, { kind: "truncate" });
  assert.equal((await it.client.get(path)).text, whole.slice(0, Math.floor(whole.length / 2)));
  it.agent.breakNext(/roots/, { kind: "replace", body: '{"Roots":7}' });
  assert.equal((await it.client.get(path)).text, '{"Roots":7}');
  it.agent.breakNext(/roots/, { kind: "oversize", bytes: 1_000_000 });
  assert.equal((await it.client.get(path)).text.length, 1_000_000);
  it.agent.breakNext(/roots/, { kind: "cut" });
  await assert.rejects(fetch(`${it.agent.address}${path}`).then((reply) => reply.text()));
  it.agent.breakNext(/roots/, { kind: "hang" });
  const controller = new AbortController();
  const hanging = fetch(`${it.agent.address}${path}`, { signal: controller.signal });
  const seen = it.agent.load.requests + 1;
  await whileWaiting(it.agent, () => Promise.resolve(controller.abort()), seen);
  await assert.rejects(hanging);
  it.agent.breakNext(/roots/, { kind: "hang" });
  it.agent.mend();
  assert.equal((await it.client.get(path)).text, whole);
});

test("a TTL runs out by the clock", async () => {
  await using it = await started();
  registerService(it.agent.world, { Name: "web", Port: 1, Check: { CheckID: "beat", TTL: "30s" } });
  await it.client.put("/v1/agent/check/pass/beat");
  await it.clock.advance(29_000);
  assert.equal(it.agent.world.services.statusOf("web"), "passing");
  await it.clock.advance(1_000);
  assert.equal(it.agent.world.services.statusOf("web"), "critical");
  const checks = await it.client.json<Record<string, { Output: string }>>("/v1/agent/checks");
  assert.equal(checks["beat"]?.Output, "TTL expired");
});

test("TCP checks dial, and an alias follows its application", async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const clock = new FakeClock();
  await using agent = await startTestAgent({ clock, random: seededRandom(1) });
  registerService(agent.world, {
    Name: "web",
    Port: port,
    Check: { CheckID: "app", TCP: `127.0.0.1:${port}`, Interval: "1s" },
    Connect: { SidecarService: { Checks: [{ CheckID: "follow", AliasService: "web" }] } },
  });
  const settled = (status: string) =>
    eventually(() => agent.world.services.statusOf("web-sidecar-proxy") === status, status);
  await settled("passing");
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await clock.advance(1_000);
  await settled("critical");
});

test("a prepared query that finds nothing counts the targets that do not exist", async () => {
  await using it = await started();
  const Targets = [{ Peer: "east" }, { Datacenter: "dc2" }];
  await it.client.call("POST", "/v1/query", {
    body: { Name: "geo", Service: { Service: "db", Connect: true, Failover: { Targets } } },
  });
  const answer = await it.client.json<Record<string, unknown>>("/v1/query/geo/execute");
  assert.deepEqual([answer["Nodes"], answer["Datacenter"], answer["Failovers"]], [[], "dc1", 2]);
});

test("the default intention policy shows in authorize, not in check", async () => {
  await using it = await started({ defaultIntentionPolicy: "deny" });
  const reply = await it.client.call("POST", "/v1/agent/connect/authorize", {
    body: { Target: "db", ClientCertURI: "spiffe://x/ns/default/dc/dc1/svc/web" },
  });
  assert.deepEqual(JSON.parse(reply.text), {
    Authorized: false,
    Reason: "Default intention policy",
  });
  const check = "/v1/connect/intentions/check?source=web&destination=db";
  assert.deepEqual(await it.client.json(check), { Allowed: true });
});

test("ACLs that are configured and not enabled contradict themselves about the default", async () => {
  await using it = await started({ acl: { enabled: false, defaultPolicy: "deny" } });
  const reply = await it.client.call("POST", "/v1/agent/connect/authorize", {
    body: { Target: "db", ClientCertURI: "spiffe://x/ns/default/dc/dc1/svc/web" },
  });
  assert.deepEqual(JSON.parse(reply.text), {
    Authorized: true,
    Reason: "Default behavior configured by ACLs",
  });
  assert.equal(reply.headers.get("X-Consul-Default-Acl-Policy"), "deny");
});

test("as a client agent it prefixes forwarded errors and writes unset limits as null", async () => {
  await using it = await started({ asClientAgent: true });
  const text = async (path: string) => (await it.client.call("GET", path)).text;
  assert.equal(await text("/v1/query/no/execute"), "rpc error making call: Query not found");
  assert.equal(
    await text("/v1/health/connect/x?dc=no"),
    "rpc error making call: No path to datacenter",
  );
  assert.equal(await text("/v1/agent/service/no"), "unknown service ID: no");
  assert.equal(
    await text("/v1/config/service-defaults/no"),
    'Config entry not found for "service-defaults" / "no"',
  );
  await it.client.configEntry({
    Kind: "service-defaults",
    Name: "web",
    UpstreamConfig: { Defaults: { Limits: { MaxConnections: 3 } } },
  });
  registerService(it.agent.world, {
    Name: "web",
    Port: 1,
    Connect: {
      SidecarService: { Proxy: { Upstreams: [{ DestinationName: "db", LocalBindPort: 5 }] } },
    },
  });
  const { Proxy } = await it.client.json<{ Proxy: { Upstreams: { Config: unknown }[] } }>(
    "/v1/agent/service/web-sidecar-proxy",
  );
  assert.deepEqual(Proxy.Upstreams[0]?.Config, {
    limits: { MaxConcurrentRequests: null, MaxConnections: 3, MaxPendingRequests: null },
  });
});

test("central configuration is merged map by map, as Consul's; the registration wins", async () => {
  await using it = await started();
  await it.client.configEntry({
    Kind: "proxy-defaults",
    Name: "global",
    Config: { a: 1, postern_tls: { minVersion: "1.3", list: [{ x: 1 }], deep: { one: 1 } } },
  });
  registerService(it.agent.world, {
    Name: "web",
    Port: 1,
    Connect: {
      SidecarService: {
        Proxy: {
          Config: { postern_tls: { minVersion: "1.2", list: [{ y: 2 }], deep: { two: 2 } } },
        },
      },
    },
  });
  const { Proxy } = await it.client.json<{ Proxy: { Config: unknown } }>(
    "/v1/agent/service/web-sidecar-proxy",
  );
  assert.deepEqual(Proxy.Config, {
    a: 1,
    postern_tls: { minVersion: "1.2", list: [{ y: 2 }], deep: { one: 1, two: 2 } },
  });
});

test("jitter lengthens a blocking wait by a sixteenth at most, never a leaf's", async () => {
  await using it = await started({ random: () => 0.999 });
  const { index } = await it.client.get("/v1/connect/intentions/match?by=destination&name=db");
  let over = false;
  const poll = it.client.get(
    `/v1/connect/intentions/match?by=destination&name=db&index=${index}&wait=16s`,
  ).then(() => over = true);
  await whileWaiting(it.agent, () => it.clock.advance(16_900), 2);
  assert.equal(over, false);
  await it.clock.advance(100);
  await poll;
  const leaf = "/v1/agent/connect/ca/leaf/web";
  const issued = await it.client.get(leaf);
  const exact = it.client.get(`${leaf}?index=${issued.index}&wait=16s`);
  await whileWaiting(it.agent, () => it.clock.advance(16_000), 4);
  await exact;
});
