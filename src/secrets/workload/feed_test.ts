import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import type { StreamHandler } from "../../grpc/mod.ts";
import { Feed, type FeedFollower } from "./feed.ts";

const MESSAGE = new Uint8Array([1]);

/** A feed with one follower; the test answers its calls. */
function setUp({ isInGrace = false } = {}) {
  const clock = new FakeClock();
  const calls: { readonly handler: StreamHandler<Uint8Array>; closed: boolean }[] = [];
  const failures: string[] = [];
  const withdrawn: string[] = [];
  const messages: unknown[] = [];
  const feed = new Feed<Uint8Array>({
    open(handler) {
      const call = { handler, closed: false };
      calls.push(call);
      return { close: () => void (call.closed = true) };
    },
    decode: (bytes) => bytes,
    arrivals: { begin() {}, end() {} },
    clock,
    random: seededRandom(1),
    where: "the agent",
  });
  const follower: FeedFollower = {
    isInGrace,
    deliver: (read) => void messages.push(read()),
    withdraw: (reason) => void withdrawn.push(reason),
    close() {},
    events: {
      onSecret() {},
      onRejected() {},
      onRecovered() {},
      onReached() {},
      onDenied() {},
      onRemoved() {},
      onUnreachable: (reason) => void failures.push(reason),
    },
  };
  feed.add(follower, () => ({ kind: "absent", fact: "read" }));
  const last = () => {
    const call = calls[calls.length - 1];
    assert.ok(call);
    return call.handler;
  };
  const end = (code: number) => last().onEnd({ code, details: "why" });
  return { clock, calls, failures, withdrawn, messages, feed, follower, last, end };
}

/** The wait before the next stream; `undefined`: there is none. */
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
  const [name, code] of [
    ["UNAVAILABLE", 14],
    ["PERMISSION_DENIED", 7],
    ["INTERNAL", 13],
    ["UNAUTHENTICATED", 16],
    ["DEADLINE_EXCEEDED before an answer", 4],
  ] as const
) {
  test(`Feed retries after ${name} with a backoff of up to 30 s`, async () => {
    const set = setUp();
    for (const most of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]) {
      set.end(code);
      assertBetween(await waitOf(set), most / 2, most);
    }
    assert.equal(set.failures.length, 9);
    assert.match(set.failures[0] ?? "", /^Cannot read from the agent: .*why/);
    assert.equal(set.withdrawn.length, code === 7 ? 9 : 0);
  });
}

test("Feed retries within half a second while a withdrawn value is kept, and does not retry a flapping agent faster", async () => {
  const set = setUp({ isInGrace: true });
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

test("Feed resets its backoff after a message", async () => {
  const set = setUp();
  for (let round = 0; round < 5; round++) {
    set.end(14);
    await waitOf(set);
  }
  void set.last().onMessage(MESSAGE);
  set.end(14);
  assertBetween(await waitOf(set), 250, 500);
  assert.deepEqual(set.messages, [{ kind: "absent", fact: "read" }]);
});

test("Feed waits for minutes after INVALID_ARGUMENT, and recovers", async () => {
  const set = setUp();
  for (const most of [60_000, 120_000, 240_000, 300_000, 300_000]) {
    set.end(3);
    assertBetween(await waitOf(set), most / 2, most);
  }
  void set.last().onMessage(MESSAGE);
  set.end(3);
  assertBetween(await waitOf(set), 30_000, 60_000);
});

test("Feed does not retry after UNIMPLEMENTED before refresh()", async () => {
  const set = setUp();
  set.end(12);
  assert.equal(await waitOf(set), undefined);
  assert.match(set.failures[0] ?? "", /it does not offer this/);
  set.feed.refresh();
  assert.equal(set.calls.length, 2);
});

test("Feed opens the next stream at once, without a failure, when one ended well", async () => {
  const set = setUp();
  for (const code of [0, 4]) {
    void set.last().onMessage(MESSAGE);
    await set.clock.advance(1_000);
    set.end(code);
    assert.equal(await waitOf(set), 0);
  }
  assert.deepEqual(set.failures, []);
});

test("Feed does not spin while every stream ends well at once", async () => {
  const set = setUp();
  const startMs = set.clock.monotonic();
  for (let round = 0; round < 10; round++) {
    void set.last().onMessage(MESSAGE);
    set.end(0);
    await waitOf(set);
  }
  assert.ok(set.clock.monotonic() - startMs >= 10 * 250);
});

test("Feed backs off when streams end well without a message", async () => {
  const set = setUp();
  for (const most of [500, 1_000, 2_000]) {
    await set.clock.advance(5_000);
    set.end(0);
    assertBetween(await waitOf(set), most / 2, most);
  }
  assert.match(set.failures[0] ?? "", /without a message/);
});

test("Feed.refresh() resets every backoff", async () => {
  const set = setUp();
  for (let round = 0; round < 5; round++) {
    set.end(14);
    await waitOf(set);
  }
  set.feed.refresh();
  set.end(14);
  assertBetween(await waitOf(set), 250, 500);
});

test("Feed.refresh() ends a wait, and leaves an open stream alone", async () => {
  const set = setUp();
  set.feed.refresh();
  assert.equal(set.calls.length, 1);
  set.end(3);
  set.feed.refresh();
  assert.equal(set.calls.length, 2);
  await set.clock.advance(3_600_000);
  assert.equal(set.calls.length, 2);
});

test("Feed ends the call and every wait with its last follower", async () => {
  const set = setUp();
  set.feed.remove(set.follower);
  assert.equal(set.calls[0]?.closed, true);
  const waiting = setUp();
  waiting.end(14);
  waiting.feed.remove(waiting.follower);
  waiting.feed.refresh();
  await waiting.clock.advance(3_600_000);
  assert.equal(waiting.calls.length, 1);
  assert.equal(waiting.clock.pending, 0);
});
