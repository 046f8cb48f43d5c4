import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { ExchangeRecorder, requestHead } from "../../../test/kit/wire/http2_pair.ts";
import {
  END_STREAM,
  frame,
  FrameWords,
  headers,
  join,
  PADDED,
  POST,
  PREFACE,
  settings,
} from "../../../test/kit/wire/http2_wire.ts";
import { Deadlines } from "../../base/mod.ts";
import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";
import { DEFAULT_HTTP_LIMITS, type ServerExchange } from "../exchange.ts";
import { UNKNOWN_LENGTH } from "../head.ts";
import { openHttp2Client } from "./client.ts";
import { serveHttp2 } from "./server.ts";

/** A stream that takes everything, and records written and given chunks. */
class Sink implements Stream {
  events: StreamEvents = ignoredEvents;
  readonly written: Uint8Array[] = [];
  readonly given: Uint8Array[] = [];
  readonly all: Uint8Array[] = [];

  write(chunk: Uint8Array): boolean {
    this.written.push(new Uint8Array(chunk));
    this.all.push(new Uint8Array(chunk));
    return true;
  }
  give(chunk: Uint8Array): boolean {
    this.given.push(chunk);
    this.all.push(new Uint8Array(chunk));
    return true;
  }
  end(): void {}
  close(): void {}
  reset(): void {}
  pause(): void {}
  resume(): void {}
}

const SIZE = 10_000;

/** A server whose requests are sent on by one client; `change` is applied to each chunk. */
async function relay(change: (chunk: Uint8Array) => Uint8Array = (chunk) => chunk) {
  const clock = new FakeClock();
  const common = { clock, deadlines: new Deadlines(clock), limits: DEFAULT_HTTP_LIMITS };
  const front = new Sink();
  const back = new Sink();
  const client = openHttp2Client(back, {
    ...common,
    events: { onCapacity: () => {}, onClose: () => {} },
  });
  serveHttp2(front, {
    ...common,
    events: {
      onRequest(exchange: ServerExchange) {
        const recorded = new ExchangeRecorder();
        exchange.events = recorded;
        const onward = client.request(
          requestHead({ length: UNKNOWN_LENGTH }),
          false,
          new ExchangeRecorder(),
        );
        recorded.onData = (chunk) => void onward.send(change(chunk));
        recorded.onEnd = (trailers) => onward.end(trailers);
      },
      onInvalid: () => {},
      onClose: () => {},
    },
  });
  back.events.onData(join(settings([4, 1_000_000]), frame("WINDOW_UPDATE", 0, 0, [0, 16, 0, 0])));
  front.events.onData(join(PREFACE, settings(), headers(1, POST, 0), headers(3, POST, 0)));
  await settle();
  back.given.length = back.written.length = back.all.length = 0;
  return {
    back,
    async read(...parts: readonly Uint8Array[]): Promise<Uint8Array> {
      const chunk = join(...parts);
      front.events.onData(chunk);
      await settle();
      return chunk;
    },
    words(): string[] {
      const words = new FrameWords();
      for (const chunk of back.all) words.take(chunk);
      return words.words;
    },
  };
}

const body = (octet: number, size = SIZE) => new Uint8Array(size).fill(octet);

test("DATA frames of one read leave together, from the memory of the read", async () => {
  const { back, read, words } = await relay();
  const chunk = await read(
    frame("DATA", 0, 3, body(1)),
    frame("DATA", 0, 1, body(2)),
    frame("DATA", 0, 3, body(3, 2_000)),
    frame("DATA", END_STREAM, 1, body(4)),
  );
  assert.deepEqual(words(), ["DATA 3 10000", "DATA 1 10000", "DATA 3 2000", "DATA 1 10000 end"]);
  assert.equal(back.given.length, 1);
  assert.equal(back.given[0]?.buffer, chunk.buffer);
  assert.deepEqual(back.written, []);
  for (const [at, octet] of [[9, 1], [10_018, 2], [20_027, 3], [22_036, 4], [32_035, 4]] as const) {
    assert.equal(back.given[0]?.[at], octet);
  }
});

test("bytes between DATA frames are not sent, and the order is kept", async () => {
  const { back, read, words } = await relay();
  await read(
    frame("DATA", PADDED, 1, [3, ...body(1), 7, 7, 7]),
    frame("DATA", 0, 3, body(2)),
    frame("PING", 0, 0, new Uint8Array(8)),
    frame("DATA", 0, 1, body(3)),
    frame("DATA", 0, 3, body(4, 10)),
    frame("DATA", END_STREAM, 3, body(5)),
  );
  assert.deepEqual(words(), [
    "DATA 1 10000",
    "DATA 3 10000",
    "DATA 1 10000",
    "DATA 3 10",
    "DATA 3 10000 end",
  ]);
  const sent = join(...back.all);
  assert.deepEqual([sent[9], sent[10_018], sent[20_027], sent[30_036], sent[30_055]], [
    1,
    2,
    3,
    4,
    5,
  ]);
});

test("a frame in two reads and a changed chunk get headers of their own", async () => {
  const { read, words } = await relay();
  const whole = frame("DATA", 0, 1, body(1, 16_000));
  await read(frame("DATA", 0, 3, body(2)), whole.slice(0, 2_009));
  await read(whole.slice(2_009), frame("DATA", END_STREAM, 1, body(3)));
  assert.deepEqual(words(), ["DATA 3 10000", "DATA 1 2000", "DATA 1 14000", "DATA 1 10000 end"]);
  const other = await relay((chunk) => chunk.subarray(1));
  const chunk = await other.read(frame("DATA", 0, 1, body(1)), frame("DATA", 0, 3, body(2)));
  assert.deepEqual(other.words(), ["DATA 1 9999", "DATA 3 9999"]);
  // The header in the read is unchanged.
  assert.deepEqual([...chunk.subarray(0, 10)], [0, 39, 16, 0, 0, 0, 0, 0, 1, 1]);
});
