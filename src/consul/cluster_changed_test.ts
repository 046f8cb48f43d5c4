/** Replies of an agent at the old address that belongs to another cluster now are not used. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError, Stats } from "../base/mod.ts";
import { AgentClient, Seen } from "../../test/kit/consul/agent_client.ts";
import {
  type AgentRequest,
  eventually,
  fixture,
  type Reaction,
} from "../../test/kit/consul/scripted_agent.ts";
import type { PinnedCluster } from "./model/consul.ts";
import { Client } from "./http/client.ts";
import { readRoots } from "./replies/certificates.ts";
import type { Intentions, Registration, Roots } from "./model/values.ts";

const OURS: PinnedCluster = { trustDomain: readRoots(fixture("roots")).trustDomain };
const THEIRS = "00000000-0000-0000-0000-000000000000.consul";
const ASKS_CLUSTER = "/v1/connect/ca/roots";

/** The cluster that answers now, and the number of proofs of the cluster. */
class World {
  trustDomain = OURS.trustDomain;
  index = 50;
  isFailing = false;
  denies = true;
  asked = 0;

  readonly answer = ({ method, path, query }: AgentRequest): Reaction => {
    if (path === ASKS_CLUSTER) this.asked++;
    if (this.isFailing) return { status: 500, text: "No cluster leader" };
    const { index } = this;
    if (Number(query.get("index")) === index || query.has("hash")) return "hang";
    if (path.endsWith("/ca/roots")) {
      const roots = fixture("roots") as Record<string, unknown>;
      return { index, json: { ...roots, TrustDomain: this.trustDomain } };
    }
    if (path.includes("/intentions/match")) {
      const intention = { SourceName: "web", DestinationName: "db", Action: "deny" };
      return { index, json: { [query.get("name") ?? ""]: this.denies ? [intention] : [] } };
    }
    if (method === "PUT") return {};
    return { status: 404, text: "unknown service ID" };
  };

  /** The cluster loses its data, and with it the intention. */
  wipe({ index = 20 } = {}): void {
    this.trustDomain = THEIRS;
    this.index = index;
    this.denies = false;
  }
}

async function startWatching(stateFile?: string) {
  const world = new World();
  const client = await AgentClient.start(world.answer);
  const intentions = new Seen<Intentions>();
  const roots = new Seen<Roots>();
  client.agent.watchIntentions("db", intentions);
  client.agent.watchRoots(roots);
  await eventually(() => intentions.values.length + roots.values.length === 2, "both");
  client.agent.pinCluster({ ...OURS, ...(stateFile === undefined ? {} : { stateFile }) });
  await client.quiet();
  return {
    world,
    client,
    intentions,
    roots,
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

const isForeign = (seen: Seen<unknown>) => () => seen.codes.includes("cluster_changed");

test("values of a wiped agent are not delivered, and the error names both clusters", async () => {
  await using it = await startWatching();
  it.world.wipe();
  it.client.script.breakAll();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  await it.client.passUntil(isForeign(it.roots), { what: "that of the roots" });
  assert.equal(it.intentions.values.length + it.roots.values.length, 2, "nothing is delivered");
  const { message } = it.intentions.errors.find(({ code }) => code === "cluster_changed") as Error;
  assert.match(message, new RegExp(`the agent at http://127\\.0\\.0\\.1:\\d+.*"${THEIRS}"`));
  assert.ok(message.includes(`"${OURS.trustDomain}"`), message);
  assert.match(message, /restart the proxy$/);
  await it.client.passUntil(() => it.intentions.errors.length > 20, { what: "it stays so" });
  assert.equal(it.intentions.values.length, 1);
});

test("the error names the stored state to remove", async () => {
  await using it = await startWatching("/var/lib/postern/web.json");
  it.world.wipe();
  it.client.script.breakAll();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  assert.match(
    it.intentions.errors.at(-1)?.message ?? "",
    /remove \/var\/lib\/postern\/web\.json /,
  );
});

test("an index that goes back requires a new proof of the cluster", async () => {
  const doubts: string[] = [];
  const replies = [["50", "49"], ["50", "50"], ["", "3"]] as const;
  for (const [asked, index] of replies) {
    const reply = { status: 200, headers: { "x-consul-index": index }, body: "[]" };
    const client = new Client({
      pathPrefix: "",
      basicAuth: "",
      datacenter: "",
      stale: false,
      namespace: "",
      partition: "",
    }, {
      carrier: {
        peer: "agent",
        where: "nowhere",
        send: () => Promise.resolve(reply),
        dropIdle() {},
        reloadFiles() {},
        close() {},
      },
      token: { current: () => "", onChange: () => () => {}, rejected() {} },
      stats: new Stats(),
      proof: { doubt: () => void doubts.push(index), confirm: () => Promise.resolve() },
    });
    const query = { index: asked };
    await client.call({ resource: "x", what: "x", path: "/v1/x", query, timeoutMs: 1 });
  }
  assert.deepEqual(doubts, ["49"]);
});

test("a failed request requires a new proof of the cluster", async () => {
  await using it = await startWatching();
  it.world.isFailing = true;
  it.client.script.breakAll();
  await it.client.passUntil(() => it.intentions.codes.includes("agent_failed"), {
    what: "a failure",
  });
  it.world.isFailing = false;
  it.world.wipe();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  assert.equal(it.intentions.values.length, 1);
});

test("values of other servers behind the same agent are not delivered, though their index is higher", async () => {
  await using it = await startWatching();
  it.world.index = 60;
  it.world.denies = false;
  it.client.script.answerWaiting();
  await it.client.passUntil(() => it.intentions.values.length === 2, { what: "a change of ours" });
  await it.client.passUntil(() => it.client.script.waiting === 2, { what: "both wait" });
  it.world.wipe({ index: 80 });
  it.world.denies = true;
  it.client.script.answerWaiting();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  await it.client.passUntil(isForeign(it.roots), { what: "that of the roots" });
  assert.equal(it.intentions.values.length, 2, "values of the other cluster are not delivered");
  assert.equal(it.roots.values.length, 1);
});

test("simultaneous changes share a proof of the cluster, and equal answers need none", async () => {
  await using it = await startWatching();
  const seen = Array.from({ length: 6 }, () => new Seen<Intentions>());
  seen.forEach((sink, at) => it.client.agent.watchIntentions(`service-${at}`, sink));
  await it.client.passUntil(() => seen.every(({ values }) => values.length === 1), { what: "all" });
  await it.client.passUntil(() => it.client.script.waiting === 8, { what: "all wait" });
  const before = it.world.asked;
  it.world.index = 60;
  it.world.denies = false;
  it.client.script.answerWaiting();
  await it.client.passUntil(() => it.intentions.values.length === 2, { what: "the change" });
  await it.client.passUntil(() => it.client.script.waiting === 8, { what: "all wait again" });
  const asked = it.world.asked - before;
  assert.ok(asked >= 1 && asked <= 3, `asked ${asked} times`);
  it.world.index = 70;
  it.client.script.answerWaiting();
  await it.client.passUntil(() => it.client.script.waiting === 8, { what: "all wait once more" });
  assert.equal(it.world.asked - before, asked);
});

test("after a broken connection one proof of the cluster serves all watches", async () => {
  await using it = await startWatching();
  const before = it.world.asked;
  it.world.denies = false;
  it.world.index = 60;
  it.client.script.breakAll();
  await it.client.passUntil(() => it.intentions.values.length === 2, { what: "the change" });
  await it.client.passUntil(() => it.client.script.waiting === 2, { what: "both wait" });
  const asked = it.world.asked - before;
  // Each watch whose connection broke requires a proof.
  assert.ok(asked >= 1 && asked <= 2, `asked ${asked} times`);
  assert.deepEqual(it.intentions.last, []);
});

test("values are delivered again when our cluster is back", async () => {
  await using it = await startWatching();
  it.world.wipe();
  it.client.script.breakAll();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  it.world.trustDomain = OURS.trustDomain;
  await it.client.passUntil(() => it.intentions.values.length === 2, {
    what: "the value",
    limitMs: 15_000,
  });
});

test("a 404 from another cluster is cluster_changed, and nothing is written to it", async () => {
  await using it = await startWatching();
  const registration = new Seen<Registration>();
  it.world.wipe();
  it.client.script.breakAll();
  await it.client.passUntil(isForeign(it.intentions), { what: "the error" });
  it.client.agent.watchRegistration("web-1-sidecar-proxy", registration);
  await it.client.passUntil(() => registration.errors.length > 0, { what: "an answer" });
  assert.deepEqual(registration.codes, ["cluster_changed"], "no 404");
  await assert.rejects(it.client.agent.findSidecar("web-1"), (error) => {
    return error instanceof ProxyError && error.code === "cluster_changed";
  });
  assert.ok(it.client.script.requests.every(({ method }) => method !== "PUT"));
});

test("a proxy without a pinned cluster sends no proof requests", async () => {
  const world = new World();
  await using client = await AgentClient.start(world.answer);
  const roots = new Seen<Roots>();
  client.agent.watchRoots(roots);
  await client.quiet();
  world.wipe();
  client.script.breakAll();
  await client.passUntil(() => roots.values.length === 2, { what: "the other roots" });
  assert.equal(roots.last?.trustDomain, THEIRS);
  assert.equal(world.asked, 0);
});
