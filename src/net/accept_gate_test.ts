import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { AcceptGate, fdHeadroom, type PausedCallers, RESERVE } from "./accept_gate.ts";
import type { Listener } from "./port.ts";

class FakeListener implements Listener {
  readonly address = { kind: "tcp", host: "127.0.0.1", port: 1 } as const;
  readonly calls: string[] = [];
  readonly keepsWaiting: boolean;
  lost = false;
  constructor(options: { readonly keepsWaiting: boolean } = { keepsWaiting: true }) {
    this.keepsWaiting = options.keepsWaiting;
  }
  pause(): void {
    this.calls.push("pause");
  }
  resume(): void {
    this.calls.push("resume");
    if (this.lost) throw new Error("in use");
  }
  copies(): readonly number[] {
    return [];
  }
  close(): void {
    this.calls.push("close");
  }
}

function setUp(
  headroom: number,
  options: { reserve?: number; workers?: number; held?: boolean } = {},
) {
  const state = {
    headroom,
    looks: 0,
    changes: [] as Array<readonly [PausedCallers, number]>,
    lost: 0,
  };
  const clock = new FakeClock();
  const gate = new AcceptGate({
    clock,
    headroom: () => {
      state.looks++;
      return state.headroom;
    },
    onChange: (paused, left) => state.changes.push([paused, left]),
    onLost: () => state.lost++,
    ...options,
  });
  const listener = new FakeListener();
  gate.add(listener, "own");
  state.looks = 0;
  return { state, clock, gate, listener };
}

test("AcceptGate opened() counts descriptors only after as many connections as can use them up", () => {
  const { state, gate, listener } = setUp(1_096, { reserve: 64 });
  for (let index = 0; index < 500; index++) assert.equal(gate.opened("own"), true);
  assert.equal(state.looks, 0);
  state.headroom = 196;
  assert.equal(gate.opened("own"), true);
  assert.equal(state.looks, 1);
  for (let index = 0; index < 50; index++) gate.opened("own");
  assert.equal(state.looks, 1);
  state.headroom = 63;
  assert.equal(gate.opened("own"), false);
  assert.equal(gate.pausedFor, "all");
  assert.deepEqual(listener.calls, ["pause"]);
  assert.deepEqual(state.changes, [["all", 63]]);
});

test("AcceptGate opened() allows for the other workers' connections", () => {
  const { state, gate } = setUp(1_096, { reserve: 64, workers: 4 });
  for (let index = 0; index <= 125; index++) gate.opened("own");
  assert.equal(state.looks, 1);
});

test("AcceptGate resumes once there is room again, not at the limit", async () => {
  const { state, clock, gate, listener } = setUp(10, { reserve: 64 });
  assert.equal(gate.pausedFor, "all");
  assert.deepEqual(listener.calls, ["pause"]);
  assert.equal(gate.opened("own"), false);
  state.headroom = 100;
  await clock.advance(1_000);
  assert.equal(gate.pausedFor, "all");
  state.headroom = 160;
  await clock.advance(100);
  assert.equal(gate.pausedFor, "nobody");
  assert.deepEqual(listener.calls, ["pause", "resume"]);
  assert.deepEqual(state.changes, [["all", 10], ["nobody", 160]]);
  assert.equal(gate.opened("own"), true);
});

test("AcceptGate notices descriptors that other code opened", async () => {
  const { state, clock, gate } = setUp(10_000, { reserve: 64 });
  state.headroom = 5;
  await clock.advance(1_999);
  assert.equal(gate.pausedFor, "nobody");
  await clock.advance(1);
  assert.equal(gate.pausedFor, "all");
});

test("AcceptGate pauses a listener added late, and ignores a removed one", async () => {
  const { state, clock, gate, listener } = setUp(1, { reserve: 64 });
  const late = new FakeListener();
  gate.add(late, "own");
  assert.deepEqual(late.calls, ["pause"]);
  gate.remove(listener);
  state.headroom = 1_000;
  await clock.advance(100);
  assert.deepEqual(late.calls, ["pause", "resume"]);
  assert.deepEqual(listener.calls, ["pause"]);
});

test("AcceptGate tries a listener that lost its address again", async () => {
  const { state, clock, listener } = setUp(1, { reserve: 64 });
  listener.lost = true;
  state.headroom = 1_000;
  await clock.advance(100);
  assert.equal(state.lost, 1);
  await clock.advance(2_000);
  assert.equal(state.lost, 2);
  listener.lost = false;
  await clock.advance(6_000);
  assert.equal(state.lost, 2);
  assert.deepEqual(listener.calls, ["pause", "resume", "resume", "resume"]);
});

test("AcceptGate keeps a smaller reserve if the limit is small", () => {
  for (const [headroom, kept] of [[40, 10], [10_000, RESERVE]] as const) {
    const { state, gate } = setUp(headroom);
    for (
      const [left, pausedFor] of [
        [1.5 * kept, "nobody"],
        [1.5 * kept - 1, "strangers"],
        [kept, "strangers"],
        [kept - 1, "all"],
        [2 * kept - 1, "all"],
        [2 * kept, "strangers"],
        [2.5 * kept, "nobody"],
      ] as const
    ) {
      state.headroom = left;
      gate.check();
      assert.equal(gate.pausedFor, pausedFor, `${left} of ${headroom}`);
    }
  }
});

test("AcceptGate pauses for strangers before the local application", () => {
  const { state, gate, listener } = setUp(1_000, { reserve: 64 });
  const strangers = new FakeListener();
  gate.add(strangers, "strangers");
  state.headroom = 95;
  gate.check();
  assert.deepEqual(strangers.calls, ["pause"]);
  assert.deepEqual(listener.calls, []);
  assert.equal(gate.opened("strangers"), false);
  assert.equal(gate.opened("own"), true);
});

test("AcceptGate strained() pauses one listener for a moment", async () => {
  const { clock, gate, listener } = setUp(10_000);
  const other = new FakeListener();
  gate.add(other, "own");
  for (let count = 0; count < 7; count++) gate.strained(listener, "refused");
  assert.deepEqual(listener.calls, []);
  for (let count = 0; count < 5; count++) gate.strained(listener, "refused");
  assert.deepEqual(listener.calls, ["pause"]);
  await clock.advance(5);
  assert.deepEqual(listener.calls, ["pause", "resume"]);
  // The same number spread over time is no strain.
  for (let count = 0; count < 7; count++) {
    gate.strained(listener, "refused");
    await clock.advance(5);
  }
  assert.deepEqual(listener.calls, ["pause", "resume"]);
  assert.deepEqual(other.calls, []);
});

test("AcceptGate strained() pauses a listener with many connections sooner", async () => {
  const { clock, gate, listener } = setUp(10_000);
  for (let count = 0; count < 4; count++) {
    assert.deepEqual(listener.calls, []);
    gate.strained(listener, "crowded");
  }
  assert.deepEqual(listener.calls, ["pause"]);
  gate.strained(listener, "crowded");
  await clock.advance(5);
  assert.deepEqual(listener.calls, ["pause", "resume"]);
});

test("AcceptGate strained() does not pause a listener that would refuse its clients", async () => {
  const { clock, gate } = setUp(10_000);
  const listener = new FakeListener({ keepsWaiting: false });
  gate.add(listener, "strangers");
  for (let count = 0; count < 20; count++) gate.strained(listener, "refused");
  await clock.advance(5);
  assert.deepEqual(listener.calls, []);
});

test("AcceptGate does not resume a resting listener while descriptors are short", async () => {
  const { state, clock, gate, listener } = setUp(10_000);
  for (let count = 0; count < 8; count++) gate.strained(listener, "refused");
  state.headroom = 1;
  gate.check();
  await clock.advance(5);
  assert.deepEqual(listener.calls, ["pause"]);
  gate.remove(listener);
  gate.strained(listener, "refused");
  await clock.advance(5);
  assert.deepEqual(listener.calls, ["pause"]);
});

test("AcceptGate never pauses if the system reports no limit", () => {
  const { gate } = setUp(Infinity);
  for (let index = 0; index < 1_000; index++) assert.equal(gate.opened("own"), true);
});

test("AcceptGate forgets the strain of a removed listener", () => {
  const { gate, listener } = setUp(10_000);
  for (let count = 0; count < 7; count++) gate.strained(listener, "refused");
  gate.remove(listener);
  gate.add(listener, "own");
  gate.strained(listener, "refused");
  assert.deepEqual(listener.calls, []);
});

test("AcceptGate close() ends a rest, too", () => {
  const { clock, gate, listener } = setUp(10_000);
  assert.equal(clock.pending, 1, "of the next look");
  gate.strained(listener, "crowded");
  assert.equal(clock.pending, 2);
  gate.close();
  assert.equal(clock.pending, 0);
});

test("AcceptGate close() ends all checks", async () => {
  const { state, clock, gate } = setUp(1_000);
  state.headroom = 0;
  gate.close();
  for (let index = 0; index < 1_000; index++) assert.equal(gate.opened("own"), true);
  await clock.advance(10_000);
  assert.equal(state.looks, 0);
  assert.equal(clock.pending, 0);
});

const IS_LINUX = process.platform === "linux";

test(`fdHeadroom() ${IS_LINUX ? "falls with open descriptors" : "is infinite here"}`, () => {
  const before = fdHeadroom();
  assert.ok(before > 0);
  assert.equal(before !== Infinity, IS_LINUX, "a limit of open files is set for tests");
  // Without a turn of the loop, in which other tests' connections may end.
  const files = Array.from({ length: 10 }, () => openSync("/dev/null", "r"));
  const after = fdHeadroom();
  for (const file of files) closeSync(file);
  // A runtime may open and close files of its own meanwhile.
  const isRight = IS_LINUX ? Math.abs(before - after - 10) <= 5 : after === Infinity;
  assert.ok(isRight, `${before} before, ${after} after`);
});

test("AcceptGate remove() forgets the state of a listener that is added again", () => {
  const { gate, listener } = setUp(10, { reserve: 64 });
  assert.deepEqual(listener.calls.splice(0), ["pause"]);
  gate.remove(listener);
  gate.add(listener, "own");
  assert.deepEqual(listener.calls, ["pause"]);
});

test("AcceptGate holds listeners of the start until release(), and pauses as usual then", () => {
  const { gate, listener, state } = setUp(1_096, { reserve: 64, held: true });
  const late = new FakeListener();
  gate.add(late, "strangers");
  gate.check();
  assert.deepEqual([listener.calls, late.calls], [["pause"], ["pause"]]);
  state.headroom = 80;
  gate.check();
  gate.release();
  assert.deepEqual([listener.calls, late.calls], [["pause", "resume"], ["pause"]]);
  state.headroom = 1_096;
  gate.check();
  gate.release();
  assert.deepEqual([listener.calls, late.calls], [["pause", "resume"], ["pause", "resume"]]);
});
