import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { KeptStream, type Reopening, type StreamEnd } from "./kept_stream.ts";
import { grpcStatus, type StreamHandler } from "./types.ts";

interface ScriptedStream {
  readonly handler: StreamHandler<string>;
  closed: boolean;
}

/** A kept stream; the test plays its streams. */
class Rig {
  readonly clock = new FakeClock();
  readonly opened: ScriptedStream[] = [];
  readonly messages: string[] = [];
  readonly ends: StreamEnd[] = [];
  verdict: Reopening = 500;
  canOpen = true;
  duringVerdict = () => {};
  readonly stream: KeptStream<string>;

  constructor(options: { readonly mayBeSilent?: boolean } = {}) {
    this.stream = new KeptStream<string>({
      clock: this.clock,
      open: (handler) => {
        if (!this.canOpen) return undefined;
        const opened: ScriptedStream = { handler, closed: false };
        this.opened.push(opened);
        return { close: () => opened.closed = true };
      },
      onMessage: (message, isFirst) => void this.messages.push(isFirst ? `${message}!` : message),
      ...(options.mayBeSilent && { onSilent: () => this.messages.push("(silent)") }),
      onEnd: (end) => {
        this.ends.push(end);
        this.duringVerdict();
        return this.verdict;
      },
    });
  }

  end(index: number, code: number): void {
    this.opened[index]?.handler.onEnd(grpcStatus(code, "over"));
  }

  say(index: number, message: string): void {
    void this.opened[index]?.handler.onMessage(message);
  }
}

for (
  const [what, answers, livedMs, code, want] of [
    ["OK after a message", true, 2_000, 0, [true, true, false]],
    ["OK after a message, within a second", true, 999, 0, [true, true, true]],
    ["OK without a message", false, 2_000, 0, [false, false, false]],
    ["our deadline after a message", true, 2_000, 4, [true, true, false]],
    ["a deadline before a message", false, 2_000, 4, [false, false, false]],
    ["UNAVAILABLE after a message", true, 2_000, 14, [true, false, false]],
  ] as const
) {
  test(`KeptStream judges an end: ${what}`, async () => {
    const rig = new Rig();
    rig.stream.start();
    if (answers) rig.say(0, "a");
    await rig.clock.advance(livedMs);
    rig.end(0, code);
    const [end] = rig.ends;
    assert.deepEqual([end?.answered, end?.isWell, end?.isBrief], want);
    assert.deepEqual([end?.livedMs, end?.status.code], [livedMs, code]);
  });
}

test("KeptStream opens the next stream after the time of the verdict", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.end(0, 14);
  await rig.clock.advance(499);
  assert.equal(rig.opened.length, 1);
  await rig.clock.advance(1);
  assert.equal(rig.opened.length, 2);
  rig.say(0, "late");
  rig.say(1, "b");
  rig.say(1, "c");
  assert.deepEqual(rig.messages.slice(1), ["b!", "c"]);
});

test("KeptStream waits for a shared wait where the verdict is one", () => {
  const rig = new Rig();
  let open = () => {};
  let cancelled = 0;
  rig.verdict = (fn) => {
    open = fn;
    return { cancel: () => cancelled++ };
  };
  rig.stream.start();
  rig.end(0, 14);
  rig.stream.start();
  assert.equal(rig.opened.length, 1, "a wait runs");
  open();
  assert.equal(rig.opened.length, 2);
  rig.end(1, 14);
  const before = cancelled;
  rig.stream.stop();
  assert.equal(cancelled, before + 1);
});

test("KeptStream that was given up is opened by refresh() only", async () => {
  const rig = new Rig();
  rig.verdict = "on_request";
  rig.stream.start();
  rig.stream.refresh();
  assert.equal(rig.opened.length, 1, "one is open");
  rig.end(0, 12);
  await rig.clock.advance(600_000);
  assert.equal(rig.opened.length, 1);
  rig.stream.refresh();
  assert.equal(rig.opened.length, 2);
});

test("KeptStream.refresh() ends a wait", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.end(0, 14);
  rig.stream.refresh();
  assert.deepEqual([rig.opened.length, rig.clock.pending], [2, 0]);
  await rig.clock.advance(1_000);
  assert.equal(rig.opened.length, 2);
});

test("KeptStream.renew() keeps the old stream until the new one delivers", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.say(0, "a");
  rig.stream.renew(100);
  await rig.clock.advance(100);
  assert.equal(rig.opened.length, 2);
  rig.say(0, "b");
  assert.equal(rig.opened[0]?.closed, false);
  rig.say(1, "c");
  assert.equal(rig.opened[0]?.closed, true);
  assert.deepEqual(rig.messages, ["a!", "b", "c!"]);
});

test("KeptStream.renew() closes at once a stream that has delivered nothing", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.stream.renew(0);
  await rig.clock.advance(0);
  assert.deepEqual(rig.opened.map(({ closed }) => closed), [true, false]);
});

test("KeptStream ignores the end of a stream that another one replaces", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.say(0, "a");
  rig.stream.renew(0);
  await rig.clock.advance(0);
  rig.end(0, 16);
  assert.deepEqual([rig.ends.length, rig.opened.length, rig.clock.pending], [0, 2, 0]);
});

test("KeptStream goes on with its stream while another one cannot be opened", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.canOpen = false;
  rig.stream.renew(0);
  await rig.clock.advance(0);
  rig.say(0, "a");
  assert.deepEqual([rig.opened[0]?.closed, rig.messages], [false, ["a!"]]);
});

test("KeptStream.stop() closes both streams of a renewal, and start() begins anew", async () => {
  const rig = new Rig();
  rig.stream.start();
  rig.say(0, "a");
  rig.stream.renew(0);
  await rig.clock.advance(0);
  rig.stream.stop();
  rig.stream.renew(0);
  rig.stream.refresh();
  await rig.clock.advance(0);
  assert.deepEqual(rig.opened.map(({ closed }) => closed), [true, true]);
  assert.equal(rig.clock.pending, 0);
  rig.stream.start();
  assert.equal(rig.opened.length, 3);
});

for (
  const [what, act, opened, pending] of [
    ["renews", (rig: Rig) => rig.stream.renew(50), 1, 1],
    ["refreshes", (rig: Rig) => rig.stream.refresh(), 2, 0],
    ["stops", (rig: Rig) => rig.stream.stop(), 1, 0],
  ] as const
) {
  test(`KeptStream follows an owner that ${what} it within the verdict`, () => {
    const rig = new Rig();
    rig.duringVerdict = () => act(rig);
    rig.stream.start();
    rig.end(0, 14);
    assert.deepEqual([rig.opened.length, rig.clock.pending], [opened, pending]);
    if (pending) assert.equal(rig.clock.nextInMs, 50);
  });
}

test("KeptStream counts silence as an answer where the owner allows it", async () => {
  const rig = new Rig({ mayBeSilent: true });
  rig.stream.start();
  rig.opened[0]?.handler.onSilent?.();
  await rig.clock.advance(2_000);
  rig.end(0, 0);
  assert.deepEqual([rig.messages, rig.ends[0]?.isWell], [["(silent)"], true]);
  const other = new Rig();
  other.stream.start();
  assert.equal(other.opened[0]?.handler.onSilent, undefined);
});
