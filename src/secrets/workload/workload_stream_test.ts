import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import type { StreamHandler } from "../../grpc/mod.ts";
import { type StreamFailure, WorkloadStream } from "./feed.ts";

const MESSAGE = new Uint8Array([1]);

/** A stream over calls that the test answers. */
function setUp({ soon = false } = {}) {
  const clock = new FakeClock();
  const calls: { readonly handler: StreamHandler<Uint8Array>; closed: boolean }[] = [];
  const failures: StreamFailure[] = [];
  const messages: Uint8Array[] = [];
  const stream = new WorkloadStream({
    open(handler) {
      const call = { handler, closed: false };
      calls.push(call);
      return { close: () => void (call.closed = true) };
    },
    clock,
    random: seededRandom(1),
    events: {
      onMessage: (bytes) => Promise.resolve(void messages.push(bytes)),
      onFailed(failure) {
        failures.push(failure);
        return soon ? "soon" : undefined;
      },
    },
    where: "the agent",
  });
  const last = () => {
    const call = calls[calls.length - 1];
    assert.ok(call);
    return call.handler;
  };
  const end = (code: number) => last().onEnd({ code, details: "why" });
  return { clock, calls, failures, messages, stream, last, end };
}

/** How long the stream waits before it opens again; `undefined`: it does not. */
async function waitOf({ clock, calls }: ReturnType<typeof setUp>): Promise<number | undefined> {
  const waitMs = clock.nextInMs;
  const before = calls.length;
  await clock.advance(waitMs ?? 3_600_000);
  assert.equal(calls.length, waitMs === undefined ? before : before + 1);
  return waitMs;
}

function assertBetween(value: number | undefined, least: number, most: number): void {
  assert.ok(value !== undefined && value >= least && value <= most, `${value}`);
}

for (
  const [name, code, kind] of [
    ["UNAVAILABLE", 14, "unreachable"],
    ["PERMISSION_DENIED", 7, "denied"],
    ["INTERNAL", 13, "unreachable"],
    ["UNAUTHENTICATED", 16, "unreachable"],
    ["DEADLINE_EXCEEDED before an answer", 4, "unreachable"],
  ] as const
) {
  test(`WorkloadStream opens again after ${name}, later each time up to 30 s`, async () => {
    const set = setUp();
    for (const most of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]) {
      set.end(code);
      assertBetween(await waitOf(set), most / 2, most);
    }
    assert.equal(set.failures.length, 9);
    assert.ok(set.failures.every((failure) => failure.kind === kind));
    assert.match(set.failures[0]?.reason ?? "", /^Cannot read from the agent: .*why/);
  });
}

test("WorkloadStream makes haste where an answer is wanted soon, even to one that gives and takes", async () => {
  const set = setUp({ soon: true });
  for (const most of [100, 200, 400, 500, 500]) {
    void set.last().onMessage(MESSAGE);
    set.end(7);
    assertBetween(await waitOf(set), most / 2, most);
  }
  void set.last().onMessage(MESSAGE);
  await set.clock.advance(1_000);
  set.end(7);
  assertBetween(await waitOf(set), 50, 100);
});

test("WorkloadStream starts its back-off over after a message", async () => {
  const set = setUp();
  for (let round = 0; round < 5; round++) {
    set.end(14);
    await waitOf(set);
  }
  void set.last().onMessage(MESSAGE);
  set.end(14);
  assertBetween(await waitOf(set), 250, 500);
  assert.deepEqual(set.messages, [MESSAGE]);
});

test("WorkloadStream hardly tries again after INVALID_ARGUMENT, and does recover", async () => {
  const set = setUp();
  for (const most of [60_000, 120_000, 240_000, 300_000, 300_000]) {
    set.end(3);
    assertBetween(await waitOf(set), most / 2, most);
  }
  assert.ok(set.failures.every((failure) => failure.kind === "refused"));
  void set.last().onMessage(MESSAGE);
  set.end(3);
  assertBetween(await waitOf(set), 30_000, 60_000);
});

test("WorkloadStream stops at UNIMPLEMENTED until asked to look again", async () => {
  const set = setUp();
  set.end(12);
  assert.equal(await waitOf(set), undefined);
  assert.deepEqual(set.failures.map((failure) => failure.kind), ["unimplemented"]);
  set.stream.refresh();
  assert.equal(set.calls.length, 2);
});

test("WorkloadStream opens at once after a good end, in silence", async () => {
  const set = setUp();
  for (const code of [0, 4]) {
    void set.last().onMessage(MESSAGE);
    await set.clock.advance(1_000);
    set.end(code);
    assert.equal(await waitOf(set), 0);
  }
  assert.deepEqual(set.failures, []);
});

test("WorkloadStream does not spin while every stream ends well at once", async () => {
  const set = setUp();
  const startMs = set.clock.monotonic();
  for (let round = 0; round < 10; round++) {
    void set.last().onMessage(MESSAGE);
    set.end(0);
    await waitOf(set);
  }
  assert.ok(set.clock.monotonic() - startMs >= 10 * 250);
});

test("WorkloadStream says so and backs off when streams end well without a message", async () => {
  const set = setUp();
  for (const most of [500, 1_000, 2_000]) {
    await set.clock.advance(5_000);
    set.end(0);
    assertBetween(await waitOf(set), most / 2, most);
  }
  assert.match(set.failures[0]?.reason ?? "", /without a message/);
});

test("WorkloadStream.refresh() starts every back-off over", async () => {
  const set = setUp();
  for (let round = 0; round < 5; round++) {
    set.end(14);
    await waitOf(set);
  }
  set.stream.refresh();
  set.end(14);
  assertBetween(await waitOf(set), 250, 500);
});

test("WorkloadStream.refresh() opens now what waits, and leaves alone what is open", async () => {
  const set = setUp();
  set.stream.refresh();
  assert.equal(set.calls.length, 1);
  set.end(3);
  set.stream.refresh();
  assert.equal(set.calls.length, 2);
  await set.clock.advance(3_600_000);
  assert.equal(set.calls.length, 2);
});

test("WorkloadStream.close() ends the call and every wait", async () => {
  const set = setUp();
  set.stream.close();
  assert.equal(set.calls[0]?.closed, true);
  const waiting = setUp();
  waiting.end(14);
  waiting.stream.close();
  waiting.stream.refresh();
  await waiting.clock.advance(3_600_000);
  assert.equal(waiting.calls.length, 1);
  assert.equal(waiting.clock.pending, 0);
});
