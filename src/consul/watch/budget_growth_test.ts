import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog, type LogRecord, silentLog, Stats } from "../../base/mod.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { ConnectionBudget } from "./budget.ts";

/** A host; the connections to its agent are `others` and those of these budgets. */
class Host {
  readonly clock = new FakeClock();
  readonly lines: LogRecord[] = [];
  readonly budgets: ConnectionBudget[] = [];
  others = 0;
  isCounted = true;

  /** A proxy that wants `watches` long polls. */
  add(watches: number, limit = 120): ConnectionBudget {
    const { clock } = this;
    const log = createLog({
      clock,
      holder: { level: "info" },
      write: (line) => void this.lines.push(line),
    });
    const budget = new ConnectionBudget({
      connections: 12,
      clock,
      log,
      stats: new Stats(),
      growth: {
        limit,
        random: () => 0.5,
        countOfHost: () => Promise.resolve(this.isCounted ? this.count : undefined),
      },
    });
    for (let at = 0; at < watches; at++) budget.join();
    this.budgets.push(budget);
    return budget;
  }

  get count(): number {
    return this.budgets.reduce((sum, { limit }) => sum + limit, this.others);
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1_000) {
      await this.clock.advance(1_000);
      await settle();
    }
  }
}

test("a budget grows to the wanted long polls while the agent has room, and logs it", async () => {
  const host = new Host();
  const budget = host.add(40);
  await host.pass(2_000);
  assert.equal(budget.limit, 12, "it does not grow in the first seconds");
  await host.pass(60_000);
  assert.deepEqual([budget.limit, budget.wanted], [43, 0], "40 and the lanes");
  assert.equal(host.lines[0]?.message, "agent has room, budget grown");
  assert.deepEqual(host.lines[0]?.fields, { from: 12, to: 28, of_host: 12 });
  budget.close();
});

test("a budget grows to its limit at most, and not without demand", async () => {
  const host = new Host();
  const [busy, calm] = [host.add(200, 64), host.add(5)];
  await host.pass(120_000);
  assert.deepEqual([busy.limit, calm.limit], [64, 12]);
  for (const budget of host.budgets) budget.close();
  assert.equal(host.clock.pending, 0);
});

test("budgets of one host grow to 150 connections together at most", async () => {
  const host = new Host();
  for (let at = 0; at < 8; at++) host.add(200);
  await host.pass(600_000);
  assert.ok(host.count > 100 && host.count <= 150, `${host.count} connections`);
  for (const budget of host.budgets) budget.close();
});

test("a budget that has grown gives connections back when others need them", async () => {
  const host = new Host();
  const budget = host.add(200);
  await host.pass(120_000);
  assert.ok(budget.limit > 100, `${budget.limit}`);
  host.others = 100;
  await host.pass(600_000);
  assert.ok(host.count < 150, `${host.count} connections`);
  assert.ok(host.lines.some(({ message }) => message === "others need the agent, budget lowered"));
  host.others = 190;
  await host.pass(600_000);
  assert.equal(budget.limit, 12, "it keeps its initial connections");
  budget.close();
});

test("budgets that have grown make room for proxies that start after them", async () => {
  const host = new Host();
  let most = 0;
  for (let at = 0; at < 10; at++) {
    host.add(40);
    for (let passed = 0; passed < 4; passed++) {
      await host.pass(1_000);
      most = Math.max(most, host.count);
    }
  }
  assert.ok(most <= 150, `${most} connections`);
  await host.pass(10_000);
  assert.ok(host.count <= 130, `${host.count} connections`);
  for (const budget of host.budgets) budget.close();
});

test("a refused budget rests, then grows to three quarters of the refused limit", async () => {
  const host = new Host();
  const budget = host.add(200, 64);
  await host.pass(60_000);
  assert.equal(budget.limit, 64);
  budget.refused();
  assert.equal(budget.limit, 32);
  await host.pass(59_000);
  assert.equal(budget.limit, 32);
  await host.pass(120_000);
  assert.equal(budget.limit, 48);
  await host.pass(600_000);
  assert.equal(budget.limit, 64, "the old limit is reached later");
  budget.close();
});

test("a budget does not grow where the connections of the host cannot be counted", async () => {
  const host = new Host();
  host.isCounted = false;
  const budget = host.add(200);
  await host.pass(600_000);
  assert.equal(budget.limit, 12);
  budget.close();
});

test("a watch in use has a turn every second, also after it was idle", async () => {
  const clock = new FakeClock();
  const budget = new ConnectionBudget({
    connections: 4,
    clock,
    log: silentLog,
    stats: new Stats(),
  });
  const seats = Array.from({ length: 100 }, () => budget.join());
  const turns = seats.map((): number[] => []);
  for (const [at, seat] of seats.entries()) {
    void (async () => {
      for (;;) {
        const turn = await seat.turn();
        turns[at]?.push(clock.monotonic());
        if (turn.mode === "long") return;
        turn.release();
      }
    })().catch(() => {});
  }
  for (let passed = 0; passed < 20_000; passed += 100) await clock.advance(100);
  const idle = turns[50]?.length ?? 0;
  assert.ok(idle >= 2 && idle <= 4, `${idle} turns in 20 s without use`);
  const wakeups = new Set(turns.flat());
  assert.ok(wakeups.size <= 25, `short polls go out together: ${wakeups.size} times in 20 s`);
  const usedMs = clock.monotonic() + 50;
  await clock.advance(50);
  for (const seat of seats.slice(50)) seat.touch();
  for (let passed = 0; passed < 10_000; passed += 50) await clock.advance(50);
  for (const times of turns.slice(50)) {
    const after = times.filter((ms) => ms >= usedMs);
    const before = times.findLast((ms) => ms < usedMs) ?? -Infinity;
    const [first = Infinity] = after;
    assert.ok(
      first - usedMs <= 50 || first - before <= 1_000,
      `the first after ${first - usedMs} ms`,
    );
    const gaps = after.slice(1).map((ms, at) => ms - (after[at] ?? 0));
    assert.ok(Math.max(...gaps) <= 1_000, `${Math.max(...gaps)} ms without news`);
  }
  for (const seat of seats) seat.leave();
  budget.close();
});
