/**
 * Connections of HTTP/2, as a server and as a client has them: nothing is thrown, memory is bounded,
 * each stream gets one end, and how the bytes were cut changes nothing. @module
 */

import assert from "node:assert/strict";
import { Deadlines } from "../../src/base/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  type HttpLimits,
  type MessageEvents,
  openHttp2Client,
  serveHttp2,
} from "../../src/http/mod.ts";
import { HeldBytes } from "../../src/http/held_bytes.ts";
import { ignoredEvents, type Stream, type StreamEvents } from "../../src/net/mod.ts";
import { FakeClock } from "../kit/clock/clock.ts";
import { requestHead } from "../kit/wire/http2_pair.ts";
import {
  END_STREAM,
  frame,
  GET,
  headers,
  join,
  PADDED,
  POST,
  PREFACE,
  settings,
  u32,
} from "../kit/wire/http2_wire.ts";
import type { FuzzTarget } from "./fuzz.ts";

const LIMITS: HttpLimits = {
  ...DEFAULT_HTTP_LIMITS,
  headBytes: 1_000,
  fields: 10,
  bufferedBytes: 1_000,
  concurrentStreams: 5,
  streamWindowBytes: 70_000,
  connectionWindowBytes: 100_000,
};
const HELD_LIMIT = 2_000;

const ping = frame("PING", 0, 0, new Uint8Array(8));
const hello = join(settings([3, 10], [4, 20]), frame("SETTINGS", 1, 0));
const CORPUS: readonly Uint8Array[] = [
  join(hello, headers(1, GET), headers(3, POST, 0), frame("DATA", 0, 3, new Uint8Array(40)), ping),
  join(
    hello,
    headers(1, POST, 0),
    frame("DATA", PADDED, 1, [2, 1, 2, 3, 0, 0]),
    headers(1, [["a", "b"]]),
  ),
  join(
    hello,
    frame("HEADERS", END_STREAM, 1, [0x82, 0x86]),
    frame("CONTINUATION", 4, 1, [0x84, 0x41, 1, 0x61]),
    frame("WINDOW_UPDATE", 0, 1, u32(100)),
    frame("WINDOW_UPDATE", 0, 0, u32(100)),
    frame("RST_STREAM", 0, 1, u32(8)),
  ),
  join(
    hello,
    headers(1, [[":status", "103"]], 0),
    headers(1, [[":status", "200"]], 0),
    frame("DATA", 1, 1, [1]),
  ),
  join(
    hello,
    headers(3, [[":status", "200"]]),
    headers(1, [[":status", "404"]]),
    frame("GOAWAY", 0, 0, [...u32(3), ...u32(0)]),
  ),
  join(
    hello,
    headers(1, [[":method", "CONNECT"], [":authority", "a"]], 0),
    frame("DATA", 0, 1, [1, 2]),
    frame("PRIORITY", 0, 1, [0, 0, 0, 0, 1]),
  ),
];

/** Takes bytes that are written, reports no events by itself. */
class Sink implements Stream {
  events: StreamEvents = ignoredEvents;
  readonly written: Uint8Array[] = [];
  over = false;
  write(chunk: Uint8Array): boolean {
    return this.give(new Uint8Array(chunk));
  }
  give(chunk: Uint8Array): boolean {
    if (!this.over) this.written.push(chunk);
    return true;
  }
  end(): void {}
  close(): void {
    this.over = true;
  }
  reset(): void {
    this.over = true;
  }
  pause(): void {}
  resume(): void {}
}

/** Everything that was reported and sent, in words; throws where a promise is broken. */
async function run(
  side: "server" | "client",
  input: Uint8Array,
  cuts: readonly number[],
): Promise<string[]> {
  const words: string[] = [];
  const stream = new Sink();
  const held = new HeldBytes(HELD_LIMIT);
  const clock = new FakeClock();
  const account = held.open("peer");
  const options = { limits: LIMITS, clock, deadlines: new Deadlines(clock), account };
  let ended = 0;
  let open = 0;
  const onClose = ({ by, kind, detail }: { by: string; kind: string; detail: string }) => {
    ended++;
    words.push(`end ${by} ${kind} ${detail}`);
  };
  const recording = (name: string): MessageEvents => ({
    onData: (chunk) => void words.push(...Array.from(chunk, (octet) => `${name} ${octet}`)),
    onEnd: (trailers) => void words.push(`${name} end ${trailers ?? ""}`),
    onDrain: () => {},
    onReset: (reason) => {
      open--;
      words.push(`${name} reset ${reason}`);
    },
  });
  let active = () => 0;
  if (side === "server") {
    const server = serveHttp2(stream, {
      ...options,
      events: {
        onRequest(exchange) {
          const { request } = exchange;
          open++;
          words.push(JSON.stringify(request));
          assert.ok(server.active <= LIMITS.concurrentStreams);
          exchange.events = recording(request.path);
          if (request.method === "POST" && request.path.length % 2 === 1) exchange.pause();
          if (request.method !== "GET") return;
          exchange.respond({ status: 200, length: 50, fields: [] }, false);
          exchange.send(new Uint8Array(50));
          exchange.end();
        },
        onInvalid: (status, detail) => void words.push(`invalid ${status} ${detail}`),
        onClose,
      },
    });
    active = () => server.active;
  } else {
    const client = openHttp2Client(stream, {
      ...options,
      events: { onCapacity: () => {}, onClose },
    });
    for (const method of ["GET", "POST", "HEAD"]) {
      open++;
      const exchange = client.request(requestHead({ method, length: -1 }), method === "GET", {
        ...recording(method),
        onInformational: ({ status }) => void words.push(`${method} ${status}`),
        onResponse: (head, ends) => void words.push(`${method} ${JSON.stringify(head)} ${ends}`),
      });
      if (method === "POST") exchange.send(new Uint8Array(100));
    }
    active = () => client.active;
  }
  const bytes = side === "server" ? join(PREFACE, input) : input;
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    if (cut <= from) continue;
    stream.events.onData(bytes.slice(from, cut));
    from = cut;
    // A turn ends.
    await Promise.resolve();
    if (ended > 0) break;
  }
  stream.events.onClose(true, "");
  assert.equal(held.bytes, 0);
  assert.equal(ended, 1);
  assert.equal(active(), 0);
  words.push(Buffer.concat(stream.written).toString("hex"));
  return words;
}

export const target: FuzzTarget = {
  name: "http2",
  corpus: CORPUS,
  dictionary: [
    "\0\0\0\x04\x01\0\0\0\0",
    "\0\0\0\0\x01\0\0\0\x01",
    "\0\0\x04\x03\0\0\0\0\x01",
    "\x82\x86\x84",
  ],
  limitMs: 200,
  async run(input, random) {
    for (const side of ["server", "client"] as const) {
      const whole = await run(side, input, []);
      const cuts = Array.from(
        { length: 1 + Math.floor(random() * 6) },
        () => Math.floor(random() * (input.length + PREFACE.length)),
      );
      const cut = await run(side, input, cuts.sort((a, b) => a - b));
      // Where a connection fails the answers of that read may be joined otherwise, so words decide.
      assert.deepEqual(cut.slice(0, -1), whole.slice(0, -1));
    }
  },
};
