import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, Stats } from "../../base/mod.ts";
import { AgentClient, Seen } from "../../../test/kit/consul/agent_client.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { eventually, fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { ConnectionBudget } from "./budget.ts";
import type { PollSlot, PollTurn } from "./poll_slot.ts";

function budgetOf(
  connections: number,
  more: { readonly modest?: boolean } = {},
): { budget: ConnectionBudget; clock: FakeClock } {
  const clock = new FakeClock();
  const stats = new Stats();
  return {
    clock,
    budget: new ConnectionBudget({ connections, clock, log: silentLog, stats, ...more }),
  };
}

/** Takes turns for ever; a short turn ends at once. */
function take(seat: PollSlot): { turns: number; ended: number } {
  const counts = { turns: 0, ended: 0 };
  const run = async () => {
    for (;;) {
      const turn = await seat.turn();
      counts.turns++;
      if (turn.mode === "long") {
        await new Promise<void>((resolve) =>
          turn.signal.addEventListener("abort", () => resolve(), { once: true })
        );
        counts.ended++;
      }
      turn.release();
    }
  };
  run().catch(() => {}); // The seat was left.
  return counts;
}

test("ConnectionBudget gives every watch a long poll while there are enough", () => {
  const { budget } = budgetOf(12);
  const critical = Array.from({ length: 4 }, () => budget.joinCritical());
  const seats = Array.from({ length: 5 }, () => budget.join());
  assert.ok([...critical, ...seats].every(({ mode }) => mode === "long"));
  assert.equal(budget.join().mode, "short", "lanes for calls stay free");
});

for (
  const [chains, healths, rare, connections, long] of [
    [0, 0, 4, 12, 0],
    [1, 1, 4, 12, 2],
    [3, 3, 4, 12, 6],
    [3, 3, 4, 6, 3],
    // The instances of failover targets take turns.
    [2, 4, 4, 12, 4],
    [40, 40, 4, 100, 80],
  ] as const
) {
  test(`a modest ConnectionBudget lets ${chains} chains and ${healths} targets have ${long} of ${connections}`, () => {
    const { budget } = budgetOf(connections, { modest: true });
    for (let at = 0; at < 2; at++) budget.joinCritical();
    const seats = [["middle", chains], ["first", healths], ["last", rare]] as const;
    const joined = seats.flatMap(([preference, count]) =>
      Array.from({ length: count }, () => budget.join(preference))
    );
    assert.equal(joined.filter(({ mode }) => mode === "long").length, long);
  });
}

test("a modest ConnectionBudget has one lane, and at most 3 connections plus 2 per upstream", async () => {
  const { budget, clock } = budgetOf(12, { modest: true });
  for (let at = 0; at < 2; at++) take(budget.joinCritical());
  const seats = ["middle", "first", "first", "last", "last", "last"] as const;
  const counts = seats.map((preference) => take(budget.join(preference)));
  for (let at = 0; at < 400; at++) {
    await clock.advance(100);
    assert.ok(budget.inUse <= 5);
  }
  assert.ok(counts.every(({ turns }) => turns > 0), "every watch had a turn");
});

test("ConnectionBudget gives every critical watch a long poll", async () => {
  const { budget } = budgetOf(1);
  const seats = Array.from({ length: 6 }, () => budget.joinCritical());
  const turns = await Promise.all(seats.map((seat) => seat.turn()));
  assert.ok(turns.every(({ mode }) => mode === "long"));
});

test("ConnectionBudget gives 40 watches equal turns within 6 connections", async () => {
  const { budget, clock } = budgetOf(6);
  for (let at = 0; at < 4; at++) take(budget.joinCritical());
  const counts = Array.from({ length: 40 }, () => take(budget.join()));
  let most = 0;
  for (let at = 0; at < 600; at++) {
    await clock.advance(100);
    most = Math.max(most, budget.inUse);
  }
  assert.ok(most <= 6, `${most} at once`);
  const turns = counts.map((count) => count.turns);
  assert.ok(
    Math.min(...turns) >= 5,
    `the least served had ${Math.min(...turns)} turns in a minute`,
  );
  assert.ok(Math.max(...turns) - Math.min(...turns) <= 1, "turns are equal");
  budget.close();
});

test("ConnectionBudget gives watches in use more turns", async () => {
  const { budget, clock } = budgetOf(6);
  for (let at = 0; at < 4; at++) take(budget.joinCritical());
  const seats = Array.from({ length: 20 }, () => budget.join());
  const counts = seats.map(take);
  for (let at = 0; at < 60; at++) {
    seats[3]?.touch();
    await clock.advance(1_000);
  }
  const used = counts[3]?.turns ?? 0;
  const idle = counts[4]?.turns ?? 0;
  assert.ok(used > 3 * idle, `${used} against ${idle}`);
  budget.close();
});

test("ConnectionBudget gives an idle watch a turn as soon as it is used", async () => {
  const { budget, clock } = budgetOf(6);
  for (let at = 0; at < 4; at++) take(budget.joinCritical());
  const seats = Array.from({ length: 20 }, () => budget.join());
  const counts = seats.map(take);
  await clock.advance(30_000);
  let idle = 0;
  for (const [at, seat] of seats.entries()) {
    const before = counts[at]?.turns ?? 0;
    await clock.advance(1_000);
    // It has just had a turn.
    if (seat.mode === "long" || counts[at]?.turns !== before) continue;
    idle++;
    seat.touch();
    await clock.advance(0);
    assert.equal(counts[at]?.turns, before + 1, `seat ${at}`);
  }
  assert.ok(idle > 10, `${idle}`);
  budget.close();
});

test("ConnectionBudget moves a long poll from an idle watch to one in use", async () => {
  const { budget, clock } = budgetOf(8);
  for (let at = 0; at < 4; at++) take(budget.joinCritical());
  const seats = Array.from({ length: 3 }, () => budget.join());
  const counts = seats.map(take);
  assert.deepEqual(seats.map(({ mode }) => mode), ["long", "short", "short"]);
  seats[2]?.touch();
  await clock.advance(30_000);
  assert.deepEqual(seats.map(({ mode }) => mode), ["short", "short", "long"]);
  assert.equal(counts[0]?.ended, 1, "its long poll was ended");
  budget.close();
});

test("ConnectionBudget prefers watches whose polls the agent ends with their connection", async () => {
  const { budget, clock } = budgetOf(5);
  const chains = Array.from({ length: 2 }, () => budget.join("middle"));
  assert.deepEqual(chains.map(({ mode }) => mode), ["long", "long"]);
  const health = Array.from({ length: 2 }, () => budget.join("first"));
  assert.deepEqual(health.map(({ mode }) => mode), ["long", "long"]);
  assert.deepEqual(chains.map(({ mode }) => mode), ["short", "short"]);
  chains[0]?.touch();
  await clock.advance(120_000);
  assert.deepEqual(health.map(({ mode }) => mode), ["long", "long"], "also when others are in use");
  for (const seat of health) seat.leave();
  assert.deepEqual(chains.map(({ mode }) => mode), ["long", "long"]);
  budget.close();
});

test("ConnectionBudget prefers chains to entries that change rarely", async () => {
  const { budget, clock } = budgetOf(5);
  const entries = Array.from({ length: 2 }, () => budget.join("last"));
  const chain = budget.join("middle");
  const modes = () => [...entries, chain].map(({ mode }) => mode).sort();
  assert.deepEqual([chain.mode, modes()], ["long", ["long", "long", "short"]]);
  entries[0]?.touch();
  entries[1]?.touch();
  await clock.advance(120_000);
  assert.equal(chain.mode, "long", "also when they are in use");
  chain.leave();
  assert.deepEqual(entries.map(({ mode }) => mode), ["long", "long"]);
  budget.close();
});

test("ConnectionBudget gives a watch that lost its long poll a short turn at once", async () => {
  const { budget } = budgetOf(4);
  const seat = budget.join("middle");
  const turn = await seat.turn();
  assert.equal(turn.mode, "long");
  budget.join("first");
  assert.equal(turn.signal.aborted, true);
  turn.release();
  assert.equal((await seat.turn()).mode, "short");
  budget.close();
});

test("ConnectionBudget halves its limit when refused, and raises it by one at a time", async () => {
  const { budget, clock } = budgetOf(12);
  const seats = Array.from({ length: 9 }, () => budget.join());
  assert.ok(seats.every(({ mode }) => mode === "long"));
  budget.refused();
  assert.equal(budget.limit, 6);
  assert.equal(seats.filter(({ mode }) => mode === "long").length, 3);
  budget.refused();
  assert.equal(budget.limit, 3);
  await clock.advance(29_000);
  assert.equal(budget.limit, 3);
  await clock.advance(1_000);
  assert.equal(budget.limit, 4);
  await clock.advance(600_000);
  assert.equal(budget.limit, 12);
  assert.ok(seats.every(({ mode }) => mode === "long"));
  assert.equal(clock.pending, 0);
});

test("ConnectionBudget runs calls beside queries, and one query at a time", async () => {
  const { budget } = budgetOf(3);
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const slow = (name: string) => () => {
    order.push(name);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  void budget.call("query", { run: slow("query 1") });
  void budget.call("query", { run: slow("query 2") });
  void budget.call("call", { run: slow("call 1") });
  void budget.call("call", { run: slow("call 2") });
  await settle();
  assert.deepEqual(order, ["query 1", "call 1", "call 2"]);
  void budget.call("call", { run: slow("call 3") });
  ends[1]?.();
  await settle();
  assert.equal(order.at(-1), "call 3");
  ends[0]?.();
  await settle();
  assert.equal(order.at(-1), "query 2");
});

test("ConnectionBudget.call() rejects when it is aborted during the wait for a lane", async () => {
  const { budget } = budgetOf(1);
  void budget.call("call", { run: () => new Promise(() => {}) });
  const stop = new AbortController();
  let ran = false;
  const waiting = budget.call("call", {
    signal: stop.signal,
    run: () => Promise.resolve(ran = true),
  });
  stop.abort();
  await assert.rejects(waiting);
  assert.equal(ran, false);
});

test("ConnectionBudget gives short turns again after a long poll was taken away", async () => {
  const { budget } = budgetOf(4);
  const seat = budget.join();
  const first: PollTurn = await seat.turn();
  assert.equal(first.mode, "long");
  budget.refused();
  assert.equal(first.signal.aborted, true);
  first.release();
  const second = await seat.turn();
  assert.equal(second.mode, "short");
  second.release();
  const third = seat.turn();
  seat.leave();
  await assert.rejects(third);
});

test("createAgent() watches 40 upstreams within 6 connections", async () => {
  await using client = await AgentClient.start((asked) => {
    const waits = Number(asked.query.get("wait")?.replace("ms", "") ?? 0);
    if (waits > 1_000) return "hang";
    return { index: 3, hash: "a", json: asked.path.includes("health") ? [] : fixture("roots") };
  }, { connections: 6 });
  const { agent, script } = client;
  agent.watchRoots(new Seen());
  const seen = Array.from({ length: 40 }, () => new Seen());
  for (const [at, sink] of seen.entries()) {
    agent.watchHealth({ service: `s${at}`, datacenter: "", filter: "" }, sink);
  }
  await eventually(() => seen.every(({ values }) => values.length === 1), "every first answer");
  const asked = (at: number) =>
    script.requests.filter(({ path }) => path === `/v1/health/connect/s${at}`).length;
  const all = () => seen.every((_, at) => asked(at) >= 2);
  await client.passUntil(all, { what: "every second turn", limitMs: 30_000 });
  assert.ok(script.mostOpen <= 6, `${script.mostOpen} connections`);
  const second = script.requests.filter(({ path }) => path === "/v1/health/connect/s39")[1];
  assert.deepEqual([second?.query.get("index"), second?.query.get("wait")], ["3", "1ms"]);
});

test("ConnectionBudget runs a waiting call before a watch's first turn", async () => {
  const { budget } = budgetOf(1);
  const order: string[] = [];
  let end = () => {};
  const running = budget.call("call", { run: () => new Promise<void>((resolve) => end = resolve) });
  await settle();
  const turn = budget.join().turn().then(({ release }) => (order.push("watch"), release()));
  const call = budget.call("call", { run: () => Promise.resolve(order.push("call")) });
  await settle();
  end();
  await Promise.all([running, turn, call]);
  assert.deepEqual(order, ["call", "watch"]);
  budget.close();
});

test("an agent's critical watches have long polls with one connection, too", async () => {
  await using client = await AgentClient.start(() => "hang", { connections: 1 });
  const { agent } = client;
  agent.watchRegistration("web-1", new Seen());
  agent.watchLeaf("web", new Seen());
  agent.watchRoots(new Seen());
  agent.watchIntentions("web", new Seen());
  agent.watchHealth({ service: "db", datacenter: "", filter: "" }, new Seen());
  agent.watchMesh(new Seen());
  await client.asked(5);
  assert.deepEqual(Object.fromEntries(agent.watchStates().map(({ name, mode }) => [name, mode])), {
    "health db": "short",
    "intentions web": "long",
    "leaf web": "long",
    "mesh": "short",
    "registration web-1": "long",
    "roots": "long",
  });
});
