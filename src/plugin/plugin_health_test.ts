import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { createLog, type LogRecord, Stats } from "../base/mod.ts";
import { forgetStanding, PluginHealth } from "./plugin_health.ts";

function stand() {
  const clock = new FakeClock();
  const stats = new Stats();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) });
  const of = { plugin: "own", listener: "inbound" };
  const standing = new PluginHealth({ ...of, at: "plugins[0]", log, lender: { clock, stats } });
  const metrics = () => Object.fromEntries(stats.samples().map(({ name, value }) => [name, value]));
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) standing.failed("oh no");
  };
  return { clock, stats, standing, metrics, lines, fail, of };
}

test("Standing has its metrics before anything has happened, and gives them back", () => {
  const { metrics, stats, of } = stand();
  assert.deepEqual(metrics(), {
    plugin_failures_total: 0,
    plugin_held_thread_total: 0,
    plugin_broken: 0,
  });
  forgetStanding(stats, of);
  assert.deepEqual(metrics(), {});
});

test("Standing breaks at the fifth failure in a row, and says so once", () => {
  const { standing, fail, metrics, lines } = stand();
  fail(4);
  standing.passed();
  fail(4);
  assert.equal(standing.mayBeAsked(), true);
  fail(3);
  assert.equal(standing.mayBeAsked(), false);
  assert.equal(standing.isBroken, true);
  assert.deepEqual(metrics(), {
    plugin_failures_total: 11,
    plugin_held_thread_total: 0,
    plugin_broken: 1,
  });
  assert.equal(lines.filter(({ level }) => level === "error").length, 1);
  assert.equal(standing.whyBroken, "failed 5 times in a row, the last time: oh no");
});

test("Standing lets one through after each pause, which doubles up to a minute", () => {
  const { standing, fail, clock, lines } = stand();
  fail(5);
  for (const pauseMs of [10_000, 20_000, 40_000, 60_000, 60_000]) {
    clock.advanceNow(pauseMs - 1);
    assert.equal(standing.mayBeAsked(), false, `before ${pauseMs}`);
    clock.advanceNow(1);
    assert.deepEqual([standing.mayBeAsked(), standing.mayBeAsked()], [true, false]);
    fail(1);
  }
  assert.equal(lines.filter(({ level }) => level === "error").length, 1);
});

test("Standing is as new once the one that was let through has passed", () => {
  const { standing, fail, clock, metrics } = stand();
  fail(5);
  clock.advanceNow(10_000);
  standing.mayBeAsked();
  standing.passed();
  assert.deepEqual([standing.isBroken, standing.mayBeAsked()], [false, true]);
  assert.equal(metrics()["plugin_broken"], 0);
  fail(4);
  assert.equal(standing.isBroken, false);
  fail(1);
  clock.advanceNow(10_000);
  assert.equal(standing.mayBeAsked(), true, "the first pause again");
});

test("Standing does not go by those who were under way when it broke", () => {
  const { standing, fail, clock } = stand();
  fail(5);
  standing.passed();
  assert.equal(standing.mayBeAsked(), false);
  fail(1);
  clock.advanceNow(10_000);
  assert.equal(standing.mayBeAsked(), true, "no longer pause");
});

test("Standing tries again where it never hears of the one that was let through", () => {
  const { standing, fail, clock } = stand();
  fail(5);
  clock.advanceNow(10_000);
  assert.equal(standing.mayBeAsked(), true);
  clock.advanceNow(9_999);
  assert.equal(standing.mayBeAsked(), false);
  clock.advanceNow(1);
  assert.equal(standing.mayBeAsked(), true);
});

test("Standing.failed() keeps little of a long reason", () => {
  const { standing } = stand();
  standing.failed("x".repeat(100_000));
  assert.equal(standing.lastFailure?.reason.length, 503);
});

test("Standing of a generation that is over says nothing of the one that serves", () => {
  const { standing, fail, metrics } = stand();
  fail(5);
  standing.retire();
  assert.equal(metrics()["plugin_broken"], 0);
  const other = stand();
  other.standing.retire();
  other.fail(5);
  assert.equal(other.metrics()["plugin_broken"], 0);
});

test("Standing names a hook that holds the thread, every ten seconds at most", () => {
  const { standing, clock, lines, metrics } = stand();
  const spin = (ms: number, elsewhereMs = 0) => {
    const startedMs = standing.nowMs() + elsewhereMs;
    clock.advanceNow(ms);
    standing.end(startedMs, "onRequest");
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

test("Standing.begin() looks at the first call, and at few of the others, whichever of a pair", () => {
  const { standing } = stand();
  const looked = Array.from(
    { length: 200 },
    (_, index) => standing.begin() === undefined ? -1 : index,
  )
    .filter((index) => index >= 0);
  assert.deepEqual(looked, [0, 61, 122, 183]);
});
