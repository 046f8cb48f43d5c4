import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { SignJWT } from "jose";
import { AgentClient, type Reply } from "../../../conformance/agent/client.ts";
import { GrpcClient } from "../../../conformance/servers/grpc_client.ts";
import { FakeClock } from "../../clock/clock.ts";
import { loopbackHost } from "../../process/ports.ts";
import { seededRandom } from "../../../../src/base/mod.ts";
import { setIntention } from "../control.ts";
import { type DevServers, startDevServers } from "./dev_servers.ts";

const MATCH = "/v1/connect/intentions/match?by=destination&name=web";
const HEALTH = "/v1/health/connect/web?passing";

interface Three extends AsyncDisposable {
  readonly servers: DevServers;
  readonly clock: FakeClock;
  readonly clients: readonly AgentClient[];
  readonly grpc: readonly GrpcClient[];
}

async function three(): Promise<Three> {
  const clock = new FakeClock();
  const first = loopbackHost();
  const hosts = [first, loopbackHost(), loopbackHost()];
  const servers = await startDevServers({ clock, random: seededRandom(1), hosts });
  const { httpPort, grpcPort } = servers;
  const under = hosts.map((host) => ({ host, httpPort, grpcPort, managementToken: "" }));
  return {
    servers,
    clock,
    clients: under.map((server) => new AgentClient({ ...server, port: server.httpPort })),
    grpc: under.map((server) => new GrpcClient(server)),
    [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose](),
  };
}

function client(cluster: Three, number: number): AgentClient {
  const found = cluster.clients[number];
  assert.ok(found);
  return found;
}

/** A poll that waits by the time this resolves. */
async function waiting(
  of: AgentClient,
  path: string,
): Promise<{ readonly reply: Promise<Reply> }> {
  const { index } = await of.get(path);
  const reply = of.call("GET", `${path}&index=${index}&wait=60s`);
  await of.settle();
  return { reply };
}

test("a killed leader ends default polls of the others, and stale ones wake at the next write", async () => {
  await using cluster = await three();
  const { servers, clock } = cluster;
  const dead = await waiting(client(cluster, 0), MATCH);
  const broken = assert.rejects(dead.reply);
  const led = await waiting(client(cluster, 1), MATCH);
  const streamed = await waiting(client(cluster, 1), HEALTH);
  const stale = await waiting(client(cluster, 2), `${MATCH}&stale`);
  servers.kill(0);
  await broken;
  assert.equal((await led.reply).status, 500);
  assert.match((await led.reply).text, /^rpc error getting client: .* connection refused$/);
  assert.equal((await streamed.reply).status, 503);
  assert.equal((await streamed.reply).text, "error reading from server: EOF");
  assert.equal((await client(cluster, 1).call("GET", MATCH)).status, 500);
  const during = await client(cluster, 1).get(`${MATCH}&stale`);
  assert.equal(during.headers.get("X-Consul-Effective-Consistency"), "stale");
  await clock.advance(3_000);
  assert.equal(servers.leader, 1);
  assert.equal((await client(cluster, 2).get(MATCH)).status, 200);
  setIntention(servers.world, "api", "web", { Action: "allow" });
  assert.match((await stale.reply).text, /"SourceName":"api"/);
});

test("a dead server leaves the list after a while, and comes back to it", async () => {
  await using cluster = await three();
  const { servers, clock, grpc } = cluster;
  const stream = grpc[1]?.follow("servers");
  assert.ok(stream);
  const listed = async () => {
    const { message } = await stream.next();
    const list = message["servers"] as readonly { readonly address: string }[];
    return list.map(({ address }) => address).sort();
  };
  assert.deepEqual(await listed(), [...servers.hosts].sort());
  servers.kill(2);
  await clock.advance(7_500);
  assert.deepEqual(await listed(), servers.hosts.slice(0, 2).sort());
  await servers.restart(2);
  await clock.advance(1_000);
  assert.deepEqual(await listed(), [...servers.hosts].sort());
  stream.close();
});

test("a server that was started again has nothing for stale reads, with headers that look good", async () => {
  await using cluster = await three();
  const { servers, clock } = cluster;
  setIntention(servers.world, "api", "web", { Action: "allow" });
  await servers.restart(2, { empty: true });
  const started = client(cluster, 2);
  const nothing = await started.get(`${MATCH}&stale`);
  assert.equal(nothing.text, '{"web":null}');
  assert.equal(nothing.headers.get("X-Consul-Index"), "1");
  assert.equal(nothing.headers.get("X-Consul-Knownleader"), "true");
  assert.match((await started.get(MATCH)).text, /"SourceName":"api"/);
  const waits = started.call("GET", `${MATCH}&stale&index=1&wait=60s`);
  await started.settle();
  await clock.advance(600);
  assert.match((await waits).text, /"SourceName":"api"/);
  assert.match((await started.get(`${MATCH}&stale`)).text, /"SourceName":"api"/);
});

test("stale reads of a follower can be behind; default reads and the leader are not", async () => {
  await using cluster = await three();
  const { servers, clock } = cluster;
  servers.lag(1, 50);
  const waits = await waiting(client(cluster, 1), `${MATCH}&stale`);
  setIntention(servers.world, "api", "web", { Action: "allow" });
  assert.equal((await client(cluster, 1).get(`${MATCH}&stale`)).text, '{"web":null}');
  assert.match((await client(cluster, 1).get(MATCH)).text, /"SourceName":"api"/);
  assert.match((await client(cluster, 0).get(`${MATCH}&stale`)).text, /"SourceName":"api"/);
  await clock.advance(50);
  assert.match((await waits.reply).text, /"SourceName":"api"/);
});

test("a server that hangs answers when it goes on", async () => {
  await using cluster = await three();
  const { servers, clock, grpc } = cluster;
  const held = await waiting(client(cluster, 2), `${MATCH}&stale`);
  servers.hang(2);
  let answers = 0;
  const later = client(cluster, 2).get(`${MATCH}&stale`).finally(() => answers++);
  const asked = grpc[2]?.ask("features").finally(() => answers++);
  setIntention(servers.world, "api", "web", { Action: "allow" });
  held.reply.finally(() => answers++);
  await client(cluster, 1).settle();
  await clock.advance(1_000);
  assert.equal(answers, 0);
  servers.resume(2);
  assert.match((await later).text, /"SourceName":"api"/);
  assert.match((await held.reply).text, /"SourceName":"api"/);
  assert.equal((await asked)?.code, 0);
});

test("servers without a quorum have no leader: writes fail late, Sign at once, stale reads and streams go on", async () => {
  await using cluster = await three();
  const { servers, clock, grpc } = cluster;
  servers.kill(0);
  servers.kill(1);
  await clock.advance(60_000);
  assert.equal(servers.leader, undefined);
  const last = client(cluster, 2);
  assert.equal((await last.get(`${MATCH}&stale`)).headers.get("X-Consul-Knownleader"), "false");
  const write = last.call("PUT", "/v1/config", { body: { Kind: "mesh" } });
  await last.settle();
  await clock.advance(12_000);
  assert.equal((await write).text, "No cluster leader");
  assert.equal((await grpc[2]?.ask("sign", { csr: "x" }))?.code, 14);
  assert.equal((await grpc[2]?.ask("features"))?.code, 0);
  const follow = grpc[2]?.follow("roots");
  assert.equal((await follow?.next())?.code, 0);
  follow?.close();
  await servers.restart(0);
  await clock.advance(3_000);
  assert.equal((await last.get(MATCH)).status, 200);
});

test("elect() and loseQuorum() move and take the leader at once", async () => {
  await using cluster = await three();
  const { servers, clock } = cluster;
  servers.elect();
  assert.equal(servers.leader, 1);
  servers.loseQuorum();
  servers.hang(2);
  servers.resume(2);
  await clock.advance(60_000);
  assert.equal(servers.leader, undefined);
  servers.elect();
  assert.notEqual(servers.leader, undefined);
});

test("a leader steps down when one of three servers is killed and another one hangs", async () => {
  await using cluster = await three();
  const { servers } = cluster;
  servers.kill(1);
  assert.equal(servers.leader, 0);
  servers.hang(2);
  assert.equal(servers.leader, undefined);
});

test("the agent API of a server does not list services of the catalog alone", async () => {
  await using cluster = await three();
  const of = client(cluster, 1);
  await of.put("/v1/catalog/register", {
    Node: "virt-1",
    Address: "10.0.0.1",
    Service: { ID: "web-1", Service: "web", Port: 80 },
  });
  const reply = await of.call("GET", "/v1/agent/service/web-1");
  assert.equal(reply.status, 404);
  assert.equal(reply.text, "unknown service ID: web-1");
});

test("a session ends at twice its TTL after it was renewed, which a new leader counts anew", async () => {
  await using cluster = await three();
  const { servers, clock } = cluster;
  const of = client(cluster, 2);
  await of.put("/v1/catalog/register", {
    Node: "virt-1",
    Address: "10.0.0.1",
    Check: {
      CheckID: "alive",
      Name: "alive",
      Type: "session",
      Definition: { SessionName: "a" },
    },
  });
  const { text } = await of.put("/v1/session/create", {
    Name: "a",
    Node: "virt-1",
    NodeChecks: [],
    TTL: "10s",
  });
  const { ID } = JSON.parse(text) as { readonly ID: string };
  const status = async () =>
    /"Status":"(\w+)"/.exec((await of.get("/v1/health/node/virt-1")).text)?.[1];
  await clock.advance(15_000);
  await of.put(`/v1/session/renew/${ID}`);
  await clock.advance(19_000);
  assert.equal(await status(), "passing");
  servers.kill(0);
  await clock.advance(3_000 + 19_000);
  assert.equal(await status(), "passing");
  await clock.advance(1_000);
  assert.equal(await status(), "critical");
});

test("over TLS the API speaks HTTP/2 and 1.1; the gRPC port refuses clients without HTTP/2", async () => {
  await using servers = await startDevServers({
    clock: new FakeClock({ startMs: Date.now() }),
    random: seededRandom(1),
    hosts: [loopbackHost()],
    secure: true,
  });
  const { tls, hosts: [host], httpPort, grpcPort } = servers;
  const secured = (port: number, protocols: string[]) =>
    new Promise<TLSSocket>((resolve, reject) => {
      const { caPem, serverName } = tls ?? {};
      const socket = connect({
        host,
        port,
        ca: caPem,
        servername: serverName,
        ALPNProtocols: protocols,
      }, () => resolve(socket));
      socket.on("error", reject);
    });
  for (
    const [port, offered, want] of [
      [httpPort, ["h2"], "h2"],
      [httpPort, ["http/1.1"], "http/1.1"],
      [grpcPort, ["h2"], "h2"],
    ] as const
  ) {
    const socket = await secured(port, [...offered]);
    assert.equal(socket.alpnProtocol, want);
    socket.destroy();
  }
  const socket = await secured(grpcPort, []);
  await new Promise((resolve) => socket.resume().once("end", resolve));
  socket.destroy();
});

test("the token of a login ends when its time is over, and its streams with it", async () => {
  const MANAGEMENT = "8a9c3ad6-2c1f-4b9e-9f0e-1d6f4a3f0b11";
  const clock = new FakeClock();
  await using servers = await startDevServers({
    clock,
    random: seededRandom(1),
    hosts: [loopbackHost()],
    acl: { defaultPolicy: "deny", tokens: [{ secretId: MANAGEMENT, management: true }] },
  });
  const { hosts: [host = ""], httpPort, grpcPort } = servers;
  const under = { host, httpPort, grpcPort, managementToken: MANAGEMENT };
  const http = new AgentClient({ ...under, port: httpPort });
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await http.put("/v1/acl/auth-method", {
    Name: "jwt",
    Type: "jwt",
    MaxTokenTTL: "60s",
    Config: { JWTValidationPubKeys: [publicKey.export({ type: "spki", format: "pem" })] },
  });
  await http.put("/v1/acl/binding-rule", {
    AuthMethod: "jwt",
    BindType: "service",
    BindName: "web",
  });
  const bearer_token = await new SignJWT({}).setProtectedHeader({ alg: "ES256" }).sign(privateKey);
  const grpc = new GrpcClient(under);
  const { message } = await grpc.ask("login", { auth_method: "jwt", bearer_token }, "");
  const { secret_id: secret = "" } = message["token"] as { readonly secret_id?: string };
  const stream = grpc.follow("roots", {}, secret);
  assert.equal((await stream.next()).code, 0);
  await clock.advance(59_999);
  assert.equal((await grpc.ask("features", {}, secret)).code, 0);
  await clock.advance(1);
  assert.deepEqual((await stream.next()).details, "ACL not found");
  assert.equal((await grpc.ask("features", {}, secret)).code, 16);
  stream.close();
});
