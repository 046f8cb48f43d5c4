import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock.ts";
import { AcceptGate, RESERVE } from "./accept_gate.ts";
import { fdHeadroom } from "./descriptors.ts";
import type { Listener } from "./port.ts";

class FakeListener implements Listener {
  readonly address = { kind: "tcp", host: "127.0.0.1", port: 1 } as const;
  readonly calls: string[] = [];
  lost = false;
  pause(): void {
    this.calls.push("pause");
  }
  resume(): void {
    this.calls.push("resume");
    if (this.lost) throw new Error("in use");
  }
  close(): void {
    this.calls.push("close");
  }
}

function setUp(headroom: number, options: { reserve?: number; workers?: number } = {}) {
  const state = { headroom, looks: 0, changes: [] as Array<readonly [boolean, number]>, lost: 0 };
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
  gate.add(listener);
  state.looks = 0;
  return { state, clock, gate, listener };
}

test("AcceptGate opened() looks only after as many connections as can use the room up", () => {
  const { state, gate, listener } = setUp(1_064, { reserve: 64 });
  for (let index = 0; index < 500; index++) assert.equal(gate.opened(), true);
  assert.equal(state.looks, 0);
  state.headroom = 164;
  assert.equal(gate.opened(), true);
  assert.equal(state.looks, 1);
  for (let index = 0; index < 50; index++) gate.opened();
  assert.equal(state.looks, 1);
  state.headroom = 63;
  assert.equal(gate.opened(), false);
  assert.equal(gate.paused, true);
  assert.deepEqual(listener.calls, ["pause"]);
  assert.deepEqual(state.changes, [[true, 63]]);
});

test("AcceptGate opened() counts on the other workers' connections", () => {
  const { state, gate } = setUp(1_064, { reserve: 64, workers: 4 });
  for (let index = 0; index <= 125; index++) gate.opened();
  assert.equal(state.looks, 1);
});

test("AcceptGate resumes once there is room again, not at the mark", async () => {
  const { state, clock, gate, listener } = setUp(10, { reserve: 64 });
  assert.equal(gate.paused, true);
  assert.deepEqual(listener.calls, ["pause"]);
  assert.equal(gate.opened(), false);
  state.headroom = 100;
  await clock.advance(1_000);
  assert.equal(gate.paused, true);
  state.headroom = 128;
  await clock.advance(100);
  assert.equal(gate.paused, false);
  assert.deepEqual(listener.calls, ["pause", "resume"]);
  assert.deepEqual(state.changes, [[true, 10], [false, 128]]);
  assert.equal(gate.opened(), true);
});

test("AcceptGate notices by itself what else took descriptors", async () => {
  const { state, clock, gate } = setUp(10_000, { reserve: 64 });
  state.headroom = 5;
  await clock.advance(1_999);
  assert.equal(gate.paused, false);
  await clock.advance(1);
  assert.equal(gate.paused, true);
});

test("AcceptGate pauses what is added late, and leaves alone what was removed", async () => {
  const { state, clock, gate, listener } = setUp(1, { reserve: 64 });
  const late = new FakeListener();
  gate.add(late);
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

test("AcceptGate keeps less in reserve where the limit is small", () => {
  for (const [headroom, kept] of [[40, 10], [10_000, RESERVE]] as const) {
    const { state, gate } = setUp(headroom);
    state.headroom = kept;
    gate.check();
    assert.equal(gate.paused, false, `${headroom}`);
    state.headroom = kept - 1;
    gate.check();
    assert.equal(gate.paused, true, `${headroom}`);
  }
});

test("AcceptGate never pauses where the system does not say", () => {
  const { gate } = setUp(Infinity);
  for (let index = 0; index < 1_000; index++) assert.equal(gate.opened(), true);
});

test("AcceptGate close() sets no timer any more", async () => {
  const { state, clock, gate } = setUp(1_000);
  gate.close();
  assert.equal(clock.pending, 0);
  assert.equal(gate.opened(), true);
  await clock.advance(10_000);
  assert.equal(state.looks, 0);
});

test("fdHeadroom() falls by what is opened", () => {
  const before = fdHeadroom();
  assert.ok(before > 0);
  if (before === Infinity) return;
  // Without a turn of the loop, in which other tests' connections may end.
  const files = Array.from({ length: 10 }, () => openSync("/dev/null", "r"));
  const after = fdHeadroom();
  for (const file of files) closeSync(file);
  // A runtime may open and close files of its own meanwhile.
  assert.ok(Math.abs(before - after - 10) <= 5, `${before} before, ${after} after`);
});
