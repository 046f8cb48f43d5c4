import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { type Conditions, createLog, type LogRecord, Stats } from "../base/mod.ts";
import { PluginHealth, removeHealthStats } from "./plugin_health.ts";

function makeHealth() {
  const clock = new FakeClock();
  const stats = new Stats();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) });
  const of = { plugin: "own", listener: "inbound" };
  const told: (string | undefined)[] = [];
  const conditions: Conditions = {
    began(_key, { text, effect }) {
      told.push(`${text}: ${effect}`);
      return true;
    },
    ended: (_key, event) => void told.push(event?.text),
  };
  const lender = { clock, stats, conditions };
  const health = new PluginHealth({ ...of, onFailure: "skip", at: "plugins[0]", log, lender });
  const metrics = () => Object.fromEntries(stats.samples().map(({ name, value }) => [name, value]));
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) health.failed("oh no");
  };
  return { clock, stats, told, health, metrics, lines, fail, of };
}

test("PluginHealth has its metrics from the start, and removeHealthStats() removes them", () => {
  const { metrics, stats, of } = makeHealth();
  assert.deepEqual(metrics(), {
    plugin_failures_total: 0,
    plugin_held_thread_total: 0,
    plugin_broken: 0,
  });
  removeHealthStats(stats, of);
  assert.deepEqual(metrics(), {});
});

test("PluginHealth pauses at the fifth failure in a row, and logs it once", () => {
  const { health, fail, metrics, lines, told } = makeHealth();
  fail(4);
  health.passed();
  fail(4);
  assert.equal(health.mayBeCalled(), true);
  fail(3);
  assert.equal(health.mayBeCalled(), false);
  assert.equal(health.isBroken, true);
  assert.deepEqual(metrics(), {
    plugin_failures_total: 11,
    plugin_held_thread_total: 0,
    plugin_broken: 1,
  });
  assert.equal(lines.filter(({ level }) => level === "error").length, 1);
  assert.deepEqual(told, [
    "own pauses: failed 5 times in a row, the last time: oh no: requests go on without it",
  ]);
  assert.equal(health.whyBroken, "failed 5 times in a row, the last time: oh no");
});

test("PluginHealth allows one trial call after each pause, which doubles up to a minute", () => {
  const { health, fail, clock, lines } = makeHealth();
  fail(5);
  for (const pauseMs of [10_000, 20_000, 40_000, 60_000, 60_000]) {
    clock.advanceNow(pauseMs - 1);
    assert.equal(health.mayBeCalled(), false, `before ${pauseMs}`);
    clock.advanceNow(1);
    assert.deepEqual([health.mayBeCalled(), health.mayBeCalled()], [true, false]);
    fail(1);
  }
  assert.equal(lines.filter(({ level }) => level === "error").length, 1);
});

test("PluginHealth resets after a trial call succeeds", () => {
  const { health, fail, clock, metrics, told } = makeHealth();
  fail(5);
  clock.advanceNow(10_000);
  health.mayBeCalled();
  health.passed();
  assert.deepEqual(told.slice(1), ["own is asked again"]);
  assert.deepEqual([health.isBroken, health.mayBeCalled()], [false, true]);
  assert.equal(metrics()["plugin_broken"], 0);
  fail(4);
  assert.equal(health.isBroken, false);
  fail(1);
  clock.advanceNow(10_000);
  assert.equal(health.mayBeCalled(), true, "the first pause again");
});

test("PluginHealth ignores results of calls from before the pause", () => {
  const { health, fail, clock } = makeHealth();
  fail(5);
  health.passed();
  assert.equal(health.mayBeCalled(), false);
  fail(1);
  clock.advanceNow(10_000);
  assert.equal(health.mayBeCalled(), true, "no longer pause");
});

test("PluginHealth allows another trial call if the first never ends", () => {
  const { health, fail, clock } = makeHealth();
  fail(5);
  clock.advanceNow(10_000);
  assert.equal(health.mayBeCalled(), true);
  clock.advanceNow(9_999);
  assert.equal(health.mayBeCalled(), false);
  clock.advanceNow(1);
  assert.equal(health.mayBeCalled(), true);
});

test("PluginHealth.failed() shortens a long reason", () => {
  const { health } = makeHealth();
  health.failed("x".repeat(100_000));
  assert.equal(health.lastFailure?.reason.length, 503);
});

test("PluginHealth of a retired generation leaves the metrics of the serving one alone", () => {
  const { health, fail, metrics, told } = makeHealth();
  fail(5);
  health.retire();
  assert.equal(metrics()["plugin_broken"], 0);
  assert.deepEqual(health.isBroken && told.slice(1), [undefined]);
  const other = makeHealth();
  other.health.retire();
  other.fail(5);
  assert.deepEqual(other.told, []);
  assert.equal(other.metrics()["plugin_broken"], 0);
});

test("PluginHealth logs a hook that holds the thread, at most every ten seconds", () => {
  const { health, clock, lines, metrics } = makeHealth();
  const spin = (ms: number, elsewhereMs = 0) => {
    const startedMs = health.nowMs() + elsewhereMs;
    clock.advanceNow(ms);
    health.end(startedMs, "onRequest");
  };
  spin(49);
  spin(100, 51);
  assert.equal(lines.length, 0);
  spin(100);
  spin(100);
  assert.deepEqual(lines.map(({ level, fields }) => [level, fields["hook"], fields["ms"]]), [
    ["warn", "onRequest", 100],
  ]);
  assert.equal(metrics()["plugin_held_thread_total"], 2);
  clock.advanceNow(10_000);
  spin(50);
  assert.equal(lines.length, 2);
});

test("PluginHealth.begin() times the first call, and few of the others, of either hook of a pair", () => {
  const { health } = makeHealth();
  const looked = Array.from(
    { length: 200 },
    (_, index) => health.begin() === undefined ? -1 : index,
  )
    .filter((index) => index >= 0);
  assert.deepEqual(looked, [0, 61, 122, 183]);
});
