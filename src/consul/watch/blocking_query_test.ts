import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, Seen } from "../../../test/kit/consul/agent_client.ts";
import { eventually, inTurn } from "../../../test/kit/consul/scripted_agent.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import type { Consul } from "../model/consul.ts";
import type { Instance, Intentions } from "../model/values.ts";

const DB = { service: "db", datacenter: "", filter: "" };

function chain(service: string): unknown {
  return {
    Chain: { ServiceName: service, Protocol: "tcp", StartNode: "", Nodes: {}, Targets: {} },
  };
}

function rules(...names: string[]): unknown {
  return { web: names.map((name) => ({ SourceName: name, Action: "allow", Precedence: 9 })) };
}

function sources(intentions: Intentions | undefined): string[] {
  return (intentions ?? []).map(({ source }) => source.name);
}

test("startWatch() reads without index, then waits by the last index", async () => {
  await using client = await AgentClient.start(
    inTurn({ index: 7, json: rules("a") }, { index: 9, json: rules("b") }),
  );
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  const queries = client.script.requests.map((
    { query },
  ) => [query.get("index"), query.get("wait")]);
  assert.deepEqual(queries.map(([index]) => index), [null, "7", "9"]);
  assert.equal(queries[0]?.[1], null);
  assert.match(queries[1]?.[1] ?? "", /^(4[89]|5\d|60)\d{3}ms$/, "a little less than a minute");
  assert.deepEqual(seen.values.map(sources), [["a"], ["b"]]);
  assert.deepEqual(seen.errors, []);
});

test("startWatch() reads index 0 as 1", async () => {
  await using client = await AgentClient.start(inTurn({ index: 0, json: rules() }));
  client.agent.watchIntentions("web", new Seen());
  await client.quiet();
  assert.equal(client.script.requests[1]?.query.get("index"), "1");
});

test("startWatch() reads without index after the index went back", async () => {
  await using client = await AgentClient.start(inTurn(
    { index: 70, json: rules("a") },
    { index: 5, json: rules("b") },
    { index: 6, json: rules("c") },
  ));
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  const indexes = client.script.requests.map(({ query }) => query.get("index"));
  assert.deepEqual(indexes, [null, "70", null, "6"]);
  assert.deepEqual(sources(seen.last), ["c"]);
});

test("startWatch() delivers nothing for a new index with equal content", async () => {
  await using client = await AgentClient.start(inTurn(
    { index: 1, json: rules("a") },
    { index: 2, json: rules("a") },
    { index: 3, json: rules("a") },
  ));
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  assert.equal(seen.values.length, 1);
});

test("startWatch() gives up a poll that outlives its wait, and forgets the index", async () => {
  await using client = await AgentClient.start(
    (asked) => asked.query.has("index") ? "hang" : { index: 7, json: rules("a") },
  );
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  const waitMs = Number(client.script.requests[1]?.query.get("wait")?.replace("ms", ""));
  await client.clock.advance(waitMs * 17 / 16 + 9_000);
  assert.deepEqual(seen.codes, [], "not before the agent may take that long");
  await client.clock.advance(2_000);
  assert.deepEqual(seen.codes, ["agent_unreachable"]);
  await client.passUntil(() => client.script.requests.length >= 3, { what: "asks again" });
  assert.equal(client.script.requests[2]?.query.get("index"), null);
});

test("startWatch() keeps the last value through 500s and backs off", async () => {
  let failing = false;
  await using client = await AgentClient.start((asked) => {
    if (failing) return { status: 500, text: "rpc error making call: No cluster leader" };
    return asked.query.has("index") ? "hang" : { index: 7, json: rules("a") };
  });
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  failing = true;
  client.script.breakAll();
  await client.passUntil(() => seen.errors.length >= 6, { what: "failures" });
  const fromMs = client.clock.monotonic();
  const before = seen.errors.length;
  await client.passUntil(() => seen.errors.length > before, { what: "one more" });
  assert.ok(client.clock.monotonic() - fromMs >= 3_500, "pauses grow");
  assert.match(seen.errors[3]?.message ?? "", /No cluster leader/);
  failing = false;
  await client.passUntil(() => client.script.waiting > 0, { what: "recovery" });
  assert.deepEqual(seen.values.map(sources), [["a"]]);
  assert.equal(client.count("agent_watch_failures_total", { resource: "intentions" }), before + 1);
  assert.ok(client.count("agent_requests_total", { result: "agent_failed" }) >= 5);
});

test("startWatch() keeps the last value through 403 and comes back", async () => {
  let allowed = true;
  await using client = await AgentClient.start((asked) => {
    if (!allowed) {
      return { status: 403, text: "Permission denied: lacks 'service:read' on \"web\"" };
    }
    return asked.query.get("index") === "8" ? "hang" : { index: 8, json: rules("a") };
  });
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await client.quiet();
  allowed = false;
  client.script.breakAll();
  await client.passUntil(() => seen.codes.includes("agent_forbidden"), { what: "403" });
  assert.match(seen.errors.at(-1)?.message ?? "", /lacks 'service:read' on "web"/);
  allowed = true;
  await client.passUntil(() => client.script.waiting > 0, { what: "recovery" });
  assert.equal(seen.values.length, 1);
  assert.equal(client.agent.watchStates()[0]?.lastError, undefined);
});

test("startWatch() keeps a registration that went missing", async () => {
  const json = {
    Kind: "connect-proxy",
    ID: "p",
    Port: 1,
    Proxy: { DestinationServiceName: "web" },
  };
  await using client = await AgentClient.start(
    inTurn({ hash: "a", json }, { status: 404, text: "unknown service ID: p" }),
  );
  const seen = new Seen();
  client.agent.watchRegistration("p", seen);
  await eventually(() => seen.errors.length === 1, "404");
  assert.deepEqual(seen.codes, ["agent_not_found"]);
  assert.match(seen.errors[0]?.message ?? "", /unknown service ID: p/);
  assert.equal(seen.values.length, 1);
});

for (
  const [name, watch, json, everyMs] of [
    ["rules", (agent, seen) => agent.watchIntentions("web", seen), rules, 250],
    ["instances", (agent, seen) => agent.watchHealth(DB, seen), () => [], 250],
    [
      "a chain",
      (agent, seen) => agent.watchChain({ service: "db", datacenter: "" }, seen),
      chain,
      250,
    ],
    ["the mesh entry", (agent, seen) => agent.watchMesh(seen), () => ({}), 1_000],
  ] as readonly [
    string,
    (agent: Consul, seen: Seen<unknown>) => void,
    (name: string) => unknown,
    number,
  ][]
) {
  test(`startWatch() reads endless changes of ${name} every ${everyMs} ms after a burst`, async () => {
    let index = 1;
    await using client = await AgentClient.start(() => ({
      index: ++index,
      json: json(`s${index}`),
    }));
    watch(client.agent, new Seen());
    await client.asked(11);
    await new Promise((resolve) => setTimeout(resolve, 30));
    assert.equal(client.script.requests.length, 11, "a burst of ten more, then a pause");
    for (let more = 1; more <= 4; more++) {
      await client.clock.advance(everyMs - 20);
      assert.equal(client.script.requests.length, 10 + more, "not sooner");
      await client.clock.advance(20);
      await client.asked(11 + more);
      await settle();
    }
  });
}

for (
  const [name, answer, code, pattern] of [
    [
      "a reply that is cut off",
      { json: rules("a"), cutAt: 12 },
      "agent_unreachable",
      /the connection ended after 12 bytes of the reply \(/,
    ],
    ["JSON that is cut off", { text: '{"web":[{"Sou' }, "agent_reply_invalid", /at byte 13 of 13/],
    ["a reply that is not JSON", { text: "<html>" }, "agent_reply_invalid", /at byte 0 of 6/],
    ["wrong types", { json: { web: [{ Precedence: "9" }] } }, "agent_reply_invalid", /Precedence/],
    ["an empty body", { text: "" }, "agent_reply_invalid", /intentions for "web"/],
    ["a closed connection", "drop", "agent_unreachable", /Cannot reach the Consul agent at http:/],
    ["an overloaded agent", { status: 429, text: "rate limit" }, "agent_overloaded", /rate limit/],
    ["a redirect", { status: 302, text: "elsewhere" }, "agent_failed", /302: elsewhere/],
  ] as const
) {
  test(`startWatch() reports ${name} and recovers`, async () => {
    const good = { index: 3, json: rules("a") };
    await using client = await AgentClient.start(inTurn(answer, good));
    const seen = new Seen<Intentions>();
    client.agent.watchIntentions("web", seen);
    await eventually(() => seen.errors.length > 0, "an error");
    assert.equal(seen.errors[0]?.code, code);
    assert.match(seen.errors[0]?.message ?? "", pattern);
    await client.passUntil(() => seen.values.length > 0, { what: "recovery" });
    assert.deepEqual(sources(seen.last), ["a"]);
  });
}

test("startWatch() refuses a 50 MB reply without reading it all", async () => {
  const huge = " ".repeat(50 << 20);
  await using client = await AgentClient.start(
    inTurn({ text: huge }, { index: 3, json: rules("a") }),
  );
  const seen = new Seen<Intentions>();
  client.agent.watchIntentions("web", seen);
  await eventually(() => seen.errors.length > 0, "an error");
  assert.equal(seen.errors[0]?.code, "agent_reply_invalid");
  assert.match(seen.errors[0]?.message ?? "", /longer than 8388608 bytes/);
  await client.passUntil(() => seen.values.length > 0, { what: "recovery" });
});

test("startWatch() delivers nothing after stop(), and closes its connection", async () => {
  await using client = await AgentClient.start(inTurn({ index: 1, json: rules("a") }));
  const seen = new Seen<Intentions>();
  const handle = client.agent.watchIntentions("web", seen);
  await client.quiet();
  handle.stop();
  await eventually(() => client.script.waiting === 0, "the long poll ends");
  assert.deepEqual(client.agent.watchStates(), []);
  assert.deepEqual([seen.values.length, seen.errors.length], [1, 0]);
  assert.equal(client.clock.pending, 0, "no timer is left");
});

test("startWatch() goes on after a sink that throws", async () => {
  await using client = await AgentClient.start(
    inTurn({ index: 1, json: rules("a") }, { index: 2, json: rules("b") }),
  );
  const seen: string[][] = [];
  client.agent.watchIntentions("web", {
    onValue(value) {
      seen.push(sources(value));
      throw new Error("listener");
    },
    onError: () => {},
  });
  await client.quiet();
  assert.deepEqual(seen, [["a"], ["b"]]);
});

test("startWatch() wakes other watches when the agent is back", async () => {
  let down = true;
  await using client = await AgentClient.start((asked) => {
    if (down) return "drop";
    if (asked.query.has("index")) return "hang";
    return asked.path.startsWith("/v1/health")
      ? { index: 1, json: [] }
      : { index: 1, json: rules() };
  });
  const intentions = new Seen<Intentions>();
  const health = new Seen<readonly Instance[]>();
  client.agent.watchIntentions("web", intentions);
  client.agent.watchHealth({ service: "db", datacenter: "", filter: "" }, health);
  const all = () => intentions.errors.length >= 6 && health.errors.length >= 6;
  await client.passUntil(all, { what: "failures" });
  down = false;
  const either = () => intentions.values.length + health.values.length > 0;
  await client.passUntil(either, { what: "the first", limitMs: 10_500 });
  const both = () => intentions.values.length * health.values.length > 0;
  await client.passUntil(both, { what: "the second, woken by the first", limitMs: 1_000 });
});

test("startWatch() finds a registration within 1.5 s that returns after its agent", async () => {
  let state: "down" | "forgotten" | "back" = "down";
  const json = { Kind: "connect-proxy", ID: "p", Proxy: { DestinationServiceName: "web" } };
  await using client = await AgentClient.start(() => {
    if (state === "down") return "drop";
    return state === "back" ? { hash: "a", json } : { status: 404, text: "unknown service ID: p" };
  });
  const seen = new Seen();
  client.agent.watchRegistration("p", seen);
  await client.passUntil(() => seen.errors.length >= 8, { what: "failures" });
  state = "forgotten";
  await client.passUntil(() => seen.codes.includes("agent_not_found"), { what: "404" });
  state = "back";
  await client.passUntil(() => seen.values.length > 0, { what: "the value", limitMs: 1_500 });
});

test("watchStates() return name, mode, age and failures", async () => {
  await using client = await AgentClient.start(inTurn({ index: 1, json: rules("a") }));
  client.agent.watchIntentions("web", new Seen());
  await client.quiet();
  await client.clock.advance(5_000);
  assert.deepEqual(client.agent.watchStates(), [{
    name: "intentions web",
    mode: "long",
    lastSuccessMs: 0,
    failures: 0,
    lastError: undefined,
  }]);
});
