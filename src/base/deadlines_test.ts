import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { Deadlines } from "./deadlines.ts";

const GRANULARITY_MS = 100;

function setUp() {
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  const fired: string[] = [];
  const after = (ms: number, name: string) => deadlines.after(ms, () => fired.push(name));
  return { clock, deadlines, fired, after };
}

test("Deadlines after() fires once, not early and at most a tenth of a second late", async () => {
  for (const delayMs of [0, 1, 99, 100, 5_000, 3_600_000]) {
    const { clock, fired, after } = setUp();
    after(delayMs, "x");
    if (delayMs > 0) await clock.advance(delayMs - 1);
    assert.deepEqual(fired, [], `${delayMs} early`);
    await clock.advance(1 + GRANULARITY_MS);
    assert.deepEqual(fired, ["x"], `${delayMs} late`);
    await clock.advance(10_000);
    assert.deepEqual(fired, ["x"]);
    assert.equal(clock.pending, 0);
  }
});

test("Deadlines after() never calls within the call", () => {
  const { fired, after } = setUp();
  after(0, "x");
  assert.deepEqual(fired, []);
});

test("Deadlines cancel() prevents firing at any position of the list", async () => {
  for (const victim of ["a", "b", "c"]) {
    const { clock, fired, after } = setUp();
    const all = ["a", "b", "c"].map((name) => [name, after(1_000, name)] as const);
    const [, chosen] = all.find(([name]) => name === victim) ?? [];
    chosen?.cancel();
    chosen?.cancel();
    await clock.advance(2_000);
    assert.deepEqual(fired, ["a", "b", "c"].filter((name) => name !== victim));
  }
});

test("Deadlines cancel() after firing does not affect others", async () => {
  const { clock, fired, after } = setUp();
  const first = after(1_000, "first");
  await clock.advance(1_100);
  after(1_000, "second");
  first.cancel();
  await clock.advance(1_100);
  assert.deepEqual(fired, ["first", "second"]);
});

test("Deadlines set no timer once none is left", async () => {
  const { clock, after } = setUp();
  const one = after(1_000, "x");
  one.cancel();
  await clock.advance(1_100);
  assert.equal(clock.pending, 0);
});

test("Deadlines of different lengths fire in the order they fall due", async () => {
  const { clock, fired, after } = setUp();
  after(5_000, "long");
  after(1_000, "short");
  await clock.advance(500);
  after(200, "shortest");
  await clock.advance(400);
  assert.deepEqual(fired, ["shortest"]);
  await clock.advance(300);
  assert.deepEqual(fired, ["shortest", "short"]);
  await clock.advance(4_000);
  assert.deepEqual(fired, ["shortest", "short", "long"]);
});

test("Deadlines of one length share one timer", async () => {
  const { clock, fired, after } = setUp();
  for (let index = 0; index < 1_000; index++) after(1_000, "x");
  assert.equal(clock.pending, 1);
  await clock.advance(1_100);
  assert.equal(fired.length, 1_000);
});

test("Deadlines may set and cancel others while they fire", async () => {
  const { clock, deadlines, fired, after } = setUp();
  deadlines.after(1_000, () => {
    fired.push("first");
    doomed.cancel();
    after(1_000, "again");
    after(50, "soon");
  });
  const doomed = after(1_000, "doomed");
  await clock.advance(1_100);
  assert.deepEqual(fired, ["first"]);
  await clock.advance(50 + GRANULARITY_MS);
  assert.deepEqual(fired, ["first", "soon"]);
  await clock.advance(2_000);
  assert.deepEqual(fired, ["first", "soon", "again"]);
});

test("Deadlines fire the others when one throws", async () => {
  const { clock, deadlines, fired, after } = setUp();
  deadlines.after(1_000, () => {
    throw new Error("mine");
  });
  after(1_000, "same list");
  after(2_000, "other list");
  await assert.rejects(clock.advance(1_100), /mine/);
  await clock.advance(3_000);
  assert.deepEqual(fired, ["same list", "other list"]);
});

test("Deadlines follow monotonic time when the wall clock jumps", async () => {
  const { clock, fired, after } = setUp();
  after(10_000, "x");
  clock.jump(3_600_000);
  await clock.advance(9_000);
  assert.deepEqual(fired, []);
  clock.jump(-7_200_000);
  await clock.advance(1_100);
  assert.deepEqual(fired, ["x"]);
});

test("Deadlines agree with a simple model over a long random run", async () => {
  const { clock, deadlines } = setUp();
  let seed = 12345;
  const random = (below: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
  interface Known {
    readonly dueMs: number;
    readonly cancel: () => void;
    firedMs?: number;
    cancelled?: boolean;
  }
  const known: Known[] = [];
  for (let step = 0; step < 2_000; step++) {
    const delayMs = [50, 100, 1_000, 5_000][random(4)] ?? 0;
    const deadline = deadlines.after(delayMs, () => void (entry.firedMs = clock.monotonic()));
    const entry: Known = { dueMs: clock.monotonic() + delayMs, cancel: () => deadline.cancel() };
    known.push(entry);
    const victim = known[random(known.length)];
    if (victim && victim.firedMs === undefined && random(3) === 0) {
      victim.cancel();
      victim.cancelled = true;
    }
    clock.advanceNow(random(40));
  }
  await clock.advance(6_000);
  for (const { dueMs, firedMs, cancelled } of known) {
    if (cancelled) assert.equal(firedMs, undefined);
    else assert.ok(firedMs !== undefined && firedMs >= dueMs && firedMs <= dueMs + GRANULARITY_MS);
  }
  assert.equal(clock.pending, 0);
});
