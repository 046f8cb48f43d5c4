import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../../../base/mod.ts";
import { Keeping, named, REQUEST, WHOLE } from "../../../../../test/kit/consul/keeping.ts";
import { MemoryCatalog } from "../../../../../test/kit/consul/memory_catalog.ts";
import type { ConsulCall } from "../../../http/carrier.ts";

test("keepRegistered() registers both services with their checks, and deregisters them at the end", async () => {
  const keeping = new Keeping();
  await keeping.pass(0);
  const { catalog } = keeping;
  assert.deepEqual(catalog.health, WHOLE);
  assert.deepEqual(keeping.said, ["registered in the catalog"]);
  let reads = 0;
  catalog.refuses = ({ method, query }) => {
    if (!method && query?.["index"] === undefined) reads++;
    return undefined;
  };
  const written = ["register", "create", "register web", "register web-proxy"];
  assert.deepEqual(catalog.writes.slice(0, 4), written);
  assert.equal(catalog.services.get("web-proxy")?.["Service"], "web-sidecar-proxy");
  await keeping.pass(60_000);
  assert.deepEqual(
    new Set(catalog.writes.slice(4)),
    new Set(["renew"]),
    "nothing is written while nothing changes",
  );
  assert.equal(reads, 0, "nothing is read from the leader");
  keeping.stop.abort();
  await keeping.pass(0);
  await keeping.over;
  assert.equal(keeping.clock.pending, 0);
  assert.deepEqual(catalog.health, []);
  assert.equal(catalog.sessions.size, 0);
  assert.equal(catalog.address, "10.0.0.1", "the node stays");
});

test("keepRegistered() writes the health of the application when it changes", async () => {
  const keeping = new Keeping({ isUp: false });
  await keeping.pass(0);
  const { catalog } = keeping;
  const down = [...WHOLE.slice(0, 2), ...named("critical", WHOLE.slice(2))];
  assert.deepEqual(catalog.health, down);
  keeping.isUp = true;
  await keeping.pass(3_000);
  assert.deepEqual(catalog.health, WHOLE);
  keeping.isUp = false;
  await keeping.pass(11_500);
  assert.deepEqual(catalog.health, down);
  await keeping.end();
});

test("keepRegistered() makes a sidecar critical that accepts no connections", async () => {
  const keeping = new Keeping();
  keeping.listens = false;
  await keeping.pass(0);
  const one = "application:passing/web";
  assert.deepEqual(keeping.catalog.health.slice(2), [`application:critical/web-proxy`, one]);
  keeping.isUp = false;
  await keeping.pass(1_500);
  assert.deepEqual(keeping.catalog.health.slice(2), named("critical", WHOLE.slice(2)));
  keeping.isUp = true;
  keeping.listens = true;
  await keeping.pass(1_500);
  assert.deepEqual(keeping.catalog.health, WHOLE);
  await keeping.end();
});

test("keepRegistered() renews its session in time, and creates another after it ended", async () => {
  const keeping = new Keeping();
  const { catalog } = keeping;
  await keeping.pass(12_500);
  const renewals = catalog.writes.filter((write) => write === "renew").length;
  assert.ok(renewals === 3 || renewals === 4, `${renewals} in 12.5 s`);
  const before = keeping.session;
  catalog.expire(before);
  assert.deepEqual(catalog.health.slice(0, 2), named("critical", WHOLE.slice(0, 2)));
  await keeping.pass(4_500);
  assert.deepEqual(catalog.health, WHOLE);
  assert.notEqual(keeping.session, before);
  const { length } = catalog.writes;
  catalog.refuses = ({ path }) =>
    path.includes("/renew/") ? new ProxyError("agent_failed", "No cluster leader") : undefined;
  await keeping.pass(4_500);
  catalog.refuses = () => undefined;
  await keeping.pass(10_000);
  assert.deepEqual(
    new Set(catalog.writes.slice(length)),
    new Set(["renew"]),
    "nothing else is due",
  );
  await keeping.end();
});

for (
  const [what, lose] of [
    ["its sidecar", (catalog: MemoryCatalog) => catalog.drop("web-proxy")],
    ["its application", (catalog: MemoryCatalog) => catalog.drop("web")],
    ["the node", (catalog: MemoryCatalog) => catalog.dropNode()],
  ] as const
) {
  test(`keepRegistered() writes ${what} again when the catalog lost it`, async () => {
    const keeping = new Keeping();
    await keeping.pass(20_000);
    lose(keeping.catalog);
    await keeping.pass(500);
    assert.deepEqual(keeping.catalog.health, WHOLE, "before the next periodic look");
    assert.equal(keeping.said.filter((line) => line === "registered in the catalog").length, 1);
    assert.ok(keeping.said.includes("catalog entries written again"));
    await keeping.end();
  });
}

test("keepRegistered() writes a lost node again although the node's checks cannot be read", async () => {
  const keeping = new Keeping();
  keeping.catalog.refuses = ({ path, query }) =>
    path.startsWith("/v1/health/node/") && !/serfHealth/.test(query?.["filter"] ?? "")
      ? new ProxyError("agent_failed", "no")
      : undefined;
  await keeping.pass(1_000);
  keeping.catalog.dropNode();
  await keeping.pass(6_000);
  assert.deepEqual(keeping.catalog.health, WHOLE);
  keeping.catalog.refuses = () => undefined;
  await keeping.end();
});

for (
  const [host, reached] of [
    ["0.0.0.0", "127.0.0.1:20000"],
    ["::", "[::1]:20000"],
    ["10.0.0.7", "10.0.0.7:20000"],
  ] as const
) {
  test(`keepRegistered() checks a proxy that listens on ${host} at ${reached}`, async () => {
    const own = { ...REQUEST.registration, bind: { kind: "tcp", host, port: 20000 } } as const;
    const keeping = new Keeping({ request: { registration: own } });
    await keeping.pass(0);
    assert.deepEqual([...keeping.dialled], ["127.0.0.1:8080", reached]);
    await keeping.end();
  });
}

test("keepRegistered() waits for servers that are unreachable at the start", async () => {
  const catalog = new MemoryCatalog();
  catalog.refuses = () => new ProxyError("agent_unreachable", "no server is in use");
  const keeping = new Keeping({ catalog });
  await keeping.pass(20_000);
  assert.deepEqual([keeping.failure, catalog.writes], [undefined, []]);
  catalog.refuses = () => undefined;
  await keeping.pass(8_000);
  assert.deepEqual(catalog.health, WHOLE);
  await keeping.end();
});

test("keepRegistered() writes a change at once that happens during a write", async () => {
  const keeping = new Keeping();
  keeping.catalog.refuses = ({ body }) => {
    const { Service } = (body ?? {}) as { readonly Service?: { readonly ID: string } };
    if (Service?.ID === "web-proxy") keeping.draining.abort();
    return undefined;
  };
  await keeping.pass(0);
  assert.deepEqual(keeping.catalog.health.slice(2), named("critical", WHOLE.slice(2)));
  await keeping.end();
});

test("keepRegistered() corrects a status that another client wrote", async () => {
  const keeping = new Keeping();
  await keeping.pass(1_000);
  const check = keeping.catalog.checks.get("web-proxy:application");
  assert.ok(check);
  keeping.catalog.put({ ...check, Status: "critical" });
  await keeping.pass(5_000);
  assert.deepEqual(keeping.catalog.health, WHOLE);
  await keeping.end();
});

test("a new process takes over before the session of a dead one ends, without a gap", async () => {
  const dead = new Keeping();
  await dead.pass(1_000);
  const { catalog, clock } = dead;
  const session = dead.session;
  const next = new Keeping({ catalog, clock });
  await next.pass(0);
  assert.deepEqual(catalog.health, WHOLE);
  // The first process loses its entries, and writes nothing more.
  catalog.expire(session);
  assert.deepEqual(catalog.health, WHOLE);
  await next.end();
});

test("a process without session:write stays healthy when an earlier process's session ends", async () => {
  const dead = new Keeping();
  await dead.pass(1_000);
  dead.isCutOff = true;
  const { catalog, clock } = dead;
  const session = dead.session;
  catalog.refuses = (call) =>
    /session/.test(call.path) ? new ProxyError("agent_forbidden", "session:write") : undefined;
  const next = new Keeping({ catalog, clock });
  await next.pass(1_000);
  catalog.expire(session);
  assert.deepEqual(catalog.health, WHOLE.slice(2));
  await next.end();
});

test("entries that another process took over are left alone until its session ends", async () => {
  const first = new Keeping();
  await first.pass(1_000);
  const { catalog, clock } = first;
  const second = new Keeping({ catalog, clock });
  await second.pass(5_000);
  assert.ok(first.said.some((line) => /another process registered the same ids/.test(line)));
  const { length } = catalog.writes;
  await second.pass(60_000);
  assert.ok(catalog.writes.slice(length).every((write) => write === "renew"));
  assert.equal(catalog.sessions.size, 1);
  second.isCutOff = true;
  catalog.expire(second.session);
  await first.pass(5_000);
  assert.deepEqual(catalog.health, WHOLE);
  assert.ok(first.said.includes("the ids are taken back"));
  assert.ok(!second.said.includes("the ids are taken back"));
  second.isCutOff = false;
  second.stop.abort();
  let over = false;
  void second.over.then(() => over = true);
  await second.pass(1_000);
  assert.ok(over);
  assert.deepEqual(
    catalog.health,
    WHOLE,
    "the second, which was taken over from, deregisters nothing",
  );
  assert.ok(!catalog.writes.some((write) => write.startsWith("deregister")));
  await first.end();
  assert.deepEqual(catalog.health, []);
});

for (
  const [title, refuse, request, code, pattern] of [
    [
      "may not register the node",
      (call: ConsulCall) => call.path === "/v1/catalog/register",
      {},
      "agent_forbidden",
      /registered once/,
    ],
    ["has no address for the node", () => false, { nodeAddress: "" }, "usage", /-node-address/],
  ] as const
) {
  test(`keepRegistered() fails where it ${title}, and leaves no entries`, async () => {
    const catalog = new MemoryCatalog();
    catalog.refuses = (call) => refuse(call) ? new ProxyError("agent_forbidden", "x") : undefined;
    const keeping = new Keeping({ catalog, request });
    await keeping.pass(0);
    await keeping.over;
    assert.ok(keeping.failure instanceof ProxyError);
    assert.equal(keeping.failure.code, code);
    assert.match(keeping.failure.message, pattern);
    assert.deepEqual([catalog.address, catalog.sessions.size], [undefined, 0]);
    assert.ok(!catalog.writes.some((write) => write.startsWith("deregister")));
  });
}

test("keepRegistered() changes each service once at the start, and twice at the end", async () => {
  const catalog = new MemoryCatalog();
  for (let restart = 1; restart <= 2; restart++) {
    const keeping = new Keeping({ catalog });
    await keeping.pass(1_000);
    assert.deepEqual(catalog.health, WHOLE);
    const once = 3 * restart - 2;
    assert.deepEqual(catalog.changes, new Map([["web", once], ["web-proxy", once]]));
    keeping.draining.abort();
    await keeping.pass(1_000);
    await keeping.end();
    assert.deepEqual([catalog.health, catalog.sessions.size], [[], 0]);
    assert.deepEqual(catalog.changes, new Map([["web", once + 2], ["web-proxy", once + 2]]));
  }
});

test("keepRegistered() leaves entries critical that it cannot deregister", async () => {
  const keeping = new Keeping();
  await keeping.pass(0);
  const { catalog } = keeping;
  catalog.refuses = ({ path }) =>
    path === "/v1/catalog/deregister" ? new ProxyError("agent_failed", "no leader") : undefined;
  await keeping.end();
  assert.deepEqual(catalog.health.slice(0, 2), ["alive:critical/web", "alive:critical/web-proxy"]);
  assert.ok(keeping.said.some((line) => line.startsWith("catalog entries stay")));
});

test("keepRegistered() does not change an existing node", async () => {
  const catalog = new MemoryCatalog();
  catalog.address = "10.9.9.9";
  const keeping = new Keeping({ catalog, request: { nodeAddress: "" } });
  await keeping.pass(0);
  assert.deepEqual(catalog.writes.slice(0, 2), ["create", "register web"]);
  await keeping.end();
});

test("keepRegistered() refuses a node whose entries an agent keeps", async () => {
  const catalog = new MemoryCatalog();
  catalog.agentNode = true;
  const keeping = new Keeping({ catalog });
  await keeping.pass(0);
  await keeping.over;
  assert.match(String(keeping.failure), /a Consul agent keeps its entries/);
});

for (
  const refusal of [
    new ProxyError("agent_forbidden", "lacks permission 'session:write'"),
    new ProxyError("agent_failed", "Invalid Session TTL '10000000000', must be between [1m=24h]"),
  ]
) {
  test(`keepRegistered() registers without a session: ${refusal.message}`, async () => {
    const catalog = new MemoryCatalog();
    catalog.refuses = (call) => /session/.test(call.path) ? refusal : undefined;
    const keeping = new Keeping({ catalog });
    await keeping.pass(30_000);
    assert.deepEqual(catalog.health, WHOLE.slice(2));
    assert.equal(keeping.said.filter((line) => /^no sign of life/.test(line)).length, 1);
    catalog.refuses = () => undefined;
    await keeping.pass(40_000);
    assert.deepEqual(catalog.health, WHOLE, "the session is created later");
    await keeping.end();
  });
}

test("keepRegistered() is critical while it drains, and registered until the end", async () => {
  const keeping = new Keeping();
  await keeping.pass(1_000);
  keeping.draining.abort();
  await keeping.pass(0);
  assert.deepEqual(keeping.catalog.health.slice(2), named("critical", WHOLE.slice(2)));
  await keeping.pass(30_000);
  assert.deepEqual(keeping.catalog.health.slice(2), named("critical", WHOLE.slice(2)));
  await keeping.end();
  assert.deepEqual(keeping.catalog.health, []);
});

test("keepRegistered() renews its session while writes are refused, and writes afterwards", async () => {
  const keeping = new Keeping({ isUp: false });
  await keeping.pass(1_000);
  const { catalog } = keeping;
  catalog.refuses = (call) =>
    /register/.test(call.path) ? new ProxyError("agent_failed", "rate limit exceeded") : undefined;
  keeping.isUp = true;
  const { length } = catalog.writes;
  await keeping.pass(30_000);
  const renewals = catalog.writes.slice(length).filter((write) => write === "renew").length;
  assert.ok(renewals >= 3, `${renewals} renewals in 30 s`);
  catalog.refuses = () => undefined;
  await keeping.pass(8_000);
  assert.deepEqual(catalog.health, WHOLE);
  await keeping.end();
});

test("keepRegistered() retries to deregister within a second", async () => {
  const keeping = new Keeping();
  await keeping.pass(1_000);
  const { catalog } = keeping;
  catalog.refuses = (call) =>
    /deregister/.test(call.path) ? new ProxyError("agent_failed", "No cluster leader") : undefined;
  keeping.stop.abort();
  await keeping.pass(1_000);
  catalog.refuses = () => undefined;
  await keeping.pass(750);
  assert.deepEqual(catalog.health, []);
  await keeping.over;
  assert.ok(!keeping.said.some((line) => /^catalog entries stay/.test(line)));
});

test("keepRegistered() deregisters nothing once the client is closed", async () => {
  const keeping = new Keeping();
  await keeping.pass(1_000);
  const { catalog } = keeping;
  catalog.refuses = () => new ProxyError("closed", "Cannot ask: it is not wanted any more");
  await keeping.pass(4_500);
  await keeping.over;
  assert.deepEqual(catalog.health, WHOLE);
});

test("keepRegistered() gives up deregistering, and the end of its session makes the entries critical", async () => {
  const keeping = new Keeping();
  await keeping.pass(1_000);
  const { catalog } = keeping;
  catalog.refuses = (call) =>
    /deregister/.test(call.path) ? new ProxyError("agent_failed", "No cluster leader") : undefined;
  await keeping.end();
  assert.deepEqual(catalog.health.slice(0, 2), named("critical", WHOLE.slice(0, 2)));
  assert.ok(keeping.said.some((line) => /^catalog entries stay/.test(line)));
});
