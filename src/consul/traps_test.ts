/**
 * Misleading behaviour of a real Consul 1.22.7, one test per trap; the numbers are those of the list of
 * observations. Traps 7, 8 and 9 are about certificates and TLS sessions and are tested there;
 * 14 is about peers.
 */
import assert from "node:assert/strict";
import net, { type AddressInfo } from "node:net";
import { test } from "node:test";
import { seededRandom, silentLog, Stats } from "../base/mod.ts";
import { AgentClient, Seen } from "../../test/kit/consul/agent_client.ts";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import {
  type AgentRequest,
  type Answer,
  eventually,
  fixture,
  fixtureText,
  inTurn,
  type Reaction,
} from "../../test/kit/consul/scripted_agent.ts";
import { runtimeEngine } from "../net/mod.ts";
import { createAgent } from "./create_agent.ts";
import { resolveAgentOptions } from "./http/options.ts";
import type { Instance, Intentions, Leaf, Registration } from "./model/values.ts";

const API = { service: "api", datacenter: "", filter: "" };
const INSTANCES: Answer = { index: 5, json: fixture("health_connect") };

/** Answers every read of a sidecar once, and never answers waits. */
function wholeAgent(asked: AgentRequest): Reaction {
  if (asked.query.has("index") || asked.query.has("hash")) return "hang";
  const { path } = asked;
  if (path.startsWith("/v1/agent/service/")) return { hash: "a", json: fixture("agent_service") };
  if (path.includes("/ca/leaf/")) return { index: 2, json: fixture("leaf") };
  if (path.includes("/ca/roots")) return { index: 3, json: fixture("roots") };
  if (path.includes("/intentions/match")) return { index: 4, json: fixture("intentions_match") };
  if (path.startsWith("/v1/health/connect")) return INSTANCES;
  if (path.startsWith("/v1/discovery-chain")) return { index: 6, json: fixture("chain_default") };
  if (path.includes("/authorize")) return { json: fixture("authorize_default") };
  if (path.startsWith("/v1/query")) return { index: 1, json: fixture("prepared_query_execute") };
  return { status: 404, index: 7, text: fixtureText("config_not_found.txt") };
}

function watchAll(client: AgentClient): Seen<unknown>[] {
  const { agent } = client;
  const sinks: Seen<unknown>[] = [];
  const next = () => {
    const sink = new Seen<unknown>();
    sinks.push(sink);
    return sink;
  };
  agent.watchRegistration("web-1-sidecar-proxy", next());
  agent.watchLeaf("web", next());
  agent.watchRoots(next());
  agent.watchIntentions("db", next());
  agent.watchChain({ service: "nothing", datacenter: "" }, next());
  agent.watchHealth(API, next());
  agent.watchMesh(next());
  agent.watchQuery({ name: "geo-db", datacenter: "", intervalMs: 10_000 }, next());
  agent.watchDefaultPolicy(
    { service: "web", trustDomain: "x.consul", datacenter: "dc1" },
    next(),
  );
  return sinks;
}

test("trap 1: the authorize call is about a source that no rule can name", async () => {
  await using client = await AgentClient.start(inTurn({ json: fixture("authorize_default") }));
  const seen = new Seen<"allow" | "deny">();
  const request = { service: "web", trustDomain: "x.consul", datacenter: "dc1" };
  client.agent.watchDefaultPolicy(request, seen);
  await eventually(() => seen.values.length > 0, "the default");
  const body = JSON.parse(client.script.requests[0]?.body ?? "") as Record<string, string>;
  assert.equal(body["Target"], "web");
  assert.equal(body["ClientCertURI"], "spiffe://x.consul/ns/postern-probe/dc/dc1/svc/x");
  assert.deepEqual(seen.values, ["allow"]);
});

test("trap 1: the default policy is deny where an intention decides the authorize call", async () => {
  await using client = await AgentClient.start(inTurn({ json: fixture("authorize_allow_l4") }));
  const seen = new Seen<"allow" | "deny">();
  const request = { service: "web", trustDomain: "x.consul", datacenter: "dc1" };
  client.agent.watchDefaultPolicy(request, seen);
  await eventually(() => seen.values.length > 0, "the default");
  assert.deepEqual(seen.values, ["deny"]);
});

test("trap 2: no read has the parameter cached, and every wait has an index or a hash", async () => {
  await using client = await AgentClient.start(wholeAgent);
  const sinks = watchAll(client);
  await eventually(() => sinks.every(({ values }) => values.length === 1), "every first answer");
  await eventually(() => client.script.waiting === 7, "every long poll");
  for (const { query } of client.script.requests) assert.equal(query.has("cached"), false);
  const waits = client.script.requests.filter(({ query }) => query.has("wait"));
  assert.equal(waits.length, 7);
  assert.ok(waits.every(({ query }) => query.has("index") || query.has("hash")));
});

test("trap 3: intentions/check is never called", async () => {
  await using client = await AgentClient.start(wholeAgent);
  const sinks = watchAll(client);
  await eventually(() => sinks.every(({ values }) => values.length === 1), "every first answer");
  assert.ok(client.script.requests.every(({ path }) => !path.includes("/check")));
});

test("trap 4: service:write is reported as missing although the agent returned a leaf", async () => {
  const answers = (rights: { Resource: string; Access: string; Segment: string }[]) =>
    rights.map((right) => ({ ...right, Allow: right.Segment !== "web" }));
  await using client = await AgentClient.start((asked) =>
    asked.path === "/v1/internal/acl/authorize"
      ? { json: answers(JSON.parse(asked.body)) }
      : wholeAgent(asked)
  );
  const leaf = new Seen<Leaf>();
  const registration = new Seen<Registration>();
  client.agent.watchLeaf("web", leaf);
  client.agent.watchRegistration("web-1-sidecar-proxy", registration);
  await eventually(() => leaf.values.length + registration.values.length === 2, "both");
  assert.ok(registration.last);
  const check = await client.agent.checkRights(registration.last);
  assert.ok(check.kind === "checked");
  assert.deepEqual(check.missing.map(({ right, on }) => [right, on]), [["service:write", "web"]]);
});

test("trap 5: an empty list from a long poll is read again without index", async () => {
  await using client = await AgentClient.start(
    inTurn(INSTANCES, { index: 6, json: [] }, { index: 7, json: fixture("health_connect") }),
  );
  const seen = new Seen<readonly Instance[]>();
  client.agent.watchHealth(API, seen);
  await client.quiet();
  const indexes = client.script.requests.map(({ query }) => query.get("index"));
  assert.deepEqual(indexes, [null, "5", null, "7"]);
  assert.equal(seen.values.length, 1, "the empty list is not delivered");
  assert.equal(seen.last?.length, 4);
});

for (
  const [name, confirmation] of [
    ["403", { status: 403, text: "Permission denied" }],
    ["the filtered header", { index: 1, json: [], filtered: true }],
  ] as const
) {
  test(`trap 5: ${name} means agent_forbidden, and the last list stays`, async () => {
    await using client = await AgentClient.start(
      inTurn(INSTANCES, { index: 6, json: [] }, confirmation),
    );
    const seen = new Seen<readonly Instance[]>();
    client.agent.watchHealth(API, seen);
    await eventually(() => seen.errors.length > 0, "the refusal");
    assert.deepEqual(seen.codes, ["agent_forbidden"]);
    assert.match(seen.errors[0]?.message ?? "", /service:read on "api"/);
    assert.equal(seen.values.length, 1);
  });
}

test("trap 6: the namespace and partition default are never sent", async () => {
  const agent = { namespace: "default", partition: "Default" };
  await using client = await AgentClient.start(wholeAgent, { agent });
  const sinks = watchAll(client);
  await eventually(() => sinks.every(({ values }) => values.length === 1), "every first answer");
  for (const { query, headers } of client.script.requests) {
    assert.ok(!query.has("ns") && !query.has("partition"));
    assert.equal(headers["x-consul-namespace"], undefined);
  }
});

test("trap 6: any other namespace and partition is sent", async () => {
  const agent = { namespace: "team", partition: "east" };
  await using client = await AgentClient.start(wholeAgent, { agent });
  client.agent.watchLeaf("web", new Seen());
  await client.asked(1);
  const query = client.script.requests[0]?.query;
  assert.deepEqual([query?.get("ns"), query?.get("partition")], ["team", "east"]);
});

test("trap 7: certificates keep Consul's order", async () => {
  const json = fixture("leaf_secondary_rotated") as { CertPEM: string };
  await using client = await AgentClient.start(inTurn({ index: 1, json }));
  const seen = new Seen<Leaf>();
  client.agent.watchLeaf("db", seen);
  await eventually(() => seen.values.length > 0, "the leaf");
  assert.equal(seen.last?.certPem, json.CertPEM);
});

test("trap 10: a new hash without a change delivers nothing", async () => {
  const proxy = (upstreams: string[], hash: string): Answer => ({
    hash,
    json: {
      Kind: "connect-proxy",
      ID: "p",
      TaggedAddresses: { [hash]: {} },
      Proxy: {
        DestinationServiceName: "web",
        Upstreams: upstreams.map((name) => ({
          DestinationName: name,
          LocalBindPort: name.charCodeAt(0),
        })),
      },
    },
  });
  await using client = await AgentClient.start(inTurn(
    proxy(["a", "b"], "98ad7deb22636a96"),
    proxy(["b", "a"], "8ad7deb22636a96"),
    proxy(["b", "c"], "8ad7deb22636a96"),
  ));
  const seen = new Seen<Registration>();
  client.agent.watchRegistration("p", seen);
  await client.quiet();
  assert.deepEqual(seen.values.map(({ upstreams }) => upstreams.map(({ name }) => name)), [
    ["a", "b"],
    ["b", "c"],
  ], "a change under the same hash is delivered");
});

test("trap 11: after a broken connection every watch reads without index", async () => {
  await using client = await AgentClient.start(
    (asked) => asked.query.has("index") ? "hang" : { index: 900, json: { web: null } },
  );
  const [first, second] = [new Seen<Intentions>(), new Seen<Intentions>()];
  client.agent.watchIntentions("web", first);
  client.agent.watchIntentions("web", second);
  await eventually(() => client.script.waiting === 2, "two long polls");
  const before = client.script.requests.length;
  client.script.breakAll();
  const again = () => client.script.requests.length >= before + 4 && client.script.waiting === 2;
  await client.passUntil(again, { what: "both ask again" });
  const later = client.script.requests.slice(before).map(({ query }) => query.get("index"));
  assert.deepEqual(later.sort(), ["900", "900", null, null]);
});

test("trap 12: the unsolicited 429 of connection 201 is agent_overloaded and halves the budget", async () => {
  const server = net.createServer((socket) => {
    socket.on("error", () => {}); // It may be gone before it has read our reply.
    socket.resume();
    socket.end(fixtureText("conn_limit_429.http"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const stats = new Stats();
  const agent = createAgent(resolveAgentOptions({ httpAddr: `127.0.0.1:${port}` }, {}), {
    engine: runtimeEngine(),
    clock: new FakeClock(),
    random: seededRandom(1),
    log: silentLog,
    stats,
    connections: 12,
  });
  try {
    const seen = new Seen<Leaf>();
    agent.watchLeaf("web", seen);
    await eventually(() => seen.errors.length > 0, "the refusal");
    assert.deepEqual(seen.codes, ["agent_overloaded"]);
    assert.match(seen.errors[0]?.message ?? "", /too many concurrent connections/);
    const limit = stats.samples().find(({ name }) => name === "agent_connections_limit");
    assert.equal(limit?.value, 6);
  } finally {
    agent.close();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("trap 13: an emptied list that a read without index confirms is delivered", async () => {
  await using client = await AgentClient.start(
    inTurn(INSTANCES, { index: 6, json: [] }, { index: 7, json: [] }, { index: 8, json: [] }),
  );
  const seen = new Seen<readonly Instance[]>();
  client.agent.watchHealth(API, seen);
  await client.quiet();
  assert.deepEqual(seen.values.map((list) => list.length), [4, 0]);
  const indexes = client.script.requests.map(({ query }) => query.get("index"));
  assert.deepEqual(indexes, [null, "5", null, "7", "8"], "the list is confirmed once");
});

test("trap 15: a rule with an invalid regular expression denies", async () => {
  const permission = { Action: "allow", HTTP: { PathRegex: "(" } };
  const json = { web: [{ SourceName: "a", Precedence: 9, Permissions: [permission] }] };
  await using client = await AgentClient.start(inTurn({ index: 1, json }));
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await eventually(() => seen.values.length > 0, "the rule");
  assert.equal(seen.last?.[0]?.action, "permissions");
});

for (const protocol of [undefined, "tcp", "http"]) {
  test(`trap 15: a chain is compiled with ${protocol ?? "its own"} protocol and the upstream's overrides`, async () => {
    await using client = await AgentClient.start(wholeAgent);
    const request = {
      service: "api",
      datacenter: "dc2",
      ...(protocol && { protocol }),
      connectTimeoutMs: 1_500,
      meshGatewayMode: "local",
    };
    client.agent.watchChain(request, new Seen());
    await client.asked(1);
    const [asked] = client.script.requests;
    assert.deepEqual([asked?.method, asked?.path], ["POST", "/v1/discovery-chain/api"]);
    assert.equal(asked?.query.get("compile-dc"), "dc2");
    assert.deepEqual(JSON.parse(asked?.body ?? ""), {
      ...(protocol && { OverrideProtocol: protocol }),
      OverrideConnectTimeout: "1500ms",
      OverrideMeshGateway: { Mode: "local" },
    });
  });
}

test("only waits that the agent drops with the connection are longer than a minute", async () => {
  await using client = await AgentClient.start(wholeAgent);
  const sinks = watchAll(client);
  await eventually(() => sinks.every(({ values }) => values.length === 1), "every first answer");
  await eventually(() => client.script.waiting === 7, "every long poll");
  const long = client.script.requests
    .filter(({ query }) => Number(query.get("wait")?.replace("ms", "") ?? 0) > 60_000)
    .map(({ path }) => path.replace(/\/[^/]*$/, "")).sort();
  assert.deepEqual(long, [
    "/v1/agent/connect/ca",
    "/v1/agent/connect/ca/leaf",
    "/v1/health/connect",
  ]);
});
