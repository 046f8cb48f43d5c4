/**
 * The result of one HTTP/1.1 server connection for bytes that come in given pieces, all within the call.
 *
 * @module
 */

import { Deadlines } from "../../../src/base/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  type Fields,
  type HttpLimits,
  type RequestHead,
  serveHttp1,
} from "../../../src/http/mod.ts";
import { ignoredEvents, type Stream, type StreamEvents } from "../../../src/net/mod.ts";
import { FakeClock } from "../clock/clock.ts";
import { latin1Text } from "./http1.ts";

/** Takes everything; bytes held back stay so. */
export class SinkStream implements Stream {
  events: StreamEvents = ignoredEvents;
  readonly chunks: Uint8Array[] = [];
  over = false;
  paused = false;

  write(chunk: Uint8Array): boolean {
    return this.give(new Uint8Array(chunk));
  }
  give(chunk: Uint8Array): boolean {
    if (!this.over) this.chunks.push(chunk);
    return true;
  }
  end(): void {
    this.over = true;
  }
  close(): void {
    this.over = true;
  }
  reset(): void {
    this.over = true;
  }
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
  }
  get text(): string {
    return this.chunks.map(latin1Text).join("");
  }
}

export interface ReadRequest {
  readonly head: RequestHead;
  body: string;
  trailers: Fields | undefined;
  complete: boolean;
}

export interface Reading {
  readonly requests: readonly ReadRequest[];
  /** Status that the codec answered by itself; 0: none. */
  readonly refused: number;
  /** The connection is over: nothing more is read. */
  readonly over: boolean;
  /** Where a refused tunnel may have begun. */
  readonly answered: string;
}

/** Small, so that damaged input meets them. */
export const FUZZ_LIMITS: HttpLimits = { ...DEFAULT_HTTP_LIMITS, headBytes: 1_000, fields: 20 };

/** Reads `input` in pieces that end at `cuts`, answering each request when it is complete. */
export function readRequests(input: Uint8Array, cuts: readonly number[]): Reading {
  const stream = new SinkStream();
  const requests: ReadRequest[] = [];
  let refused = 0;
  serveHttp1(stream, {
    limits: FUZZ_LIMITS,
    deadlines: new Deadlines(new FakeClock()),
    events: {
      onRequest(exchange) {
        const head = exchange.request;
        const one: ReadRequest = { head, body: "", trailers: undefined, complete: false };
        requests.push(one);
        const complete = (trailers?: Fields) => {
          one.trailers = trailers;
          one.complete = true;
          exchange.respond({ status: 204, length: 0, fields: [] }, true);
        };
        exchange.events = {
          onData: (chunk) => void (one.body += latin1Text(chunk)),
          onEnd: complete,
          onDrain() {},
          onReset: (reason) => void (refused = reason === "protocol" ? 400 : refused),
        };
        if (exchange.endsWithHead) complete();
      },
      // 0: without an answer, for clients that would not understand one.
      onInvalid: (status) => void (refused = status || 400),
      onClose() {},
    },
  });
  let at = 0;
  for (const cut of [...cuts, input.length]) {
    // The connection may change the chunk that it is given.
    stream.events.onData(input.slice(at, cut));
    at = cut;
  }
  return { requests, refused, over: stream.over, answered: stream.text };
}

/** Random cuts between 0 and `length`, rising. */
export function randomCuts(length: number, random: () => number): number[] {
  const count = random() < 0.2 ? length : Math.floor(random() * 6);
  return Array.from({ length: count }, () => Math.floor(random() * (length + 1)))
    .sort((a, b) => a - b);
}

const text = (value: string): Uint8Array =>
  Uint8Array.from(value, (character) => character.charCodeAt(0));

/** Sound connections. */
export const REQUESTS: readonly Uint8Array[] = [
  "GET / HTTP/1.1\r\nHost: db\r\n\r\n",
  "GET /a?b=c HTTP/1.1\r\nHost: db:80\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n".repeat(2),
  "POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: db\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: db\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
  "PUT / HTTP/1.1\r\nHost: db\r\ntransfer-encoding: Chunked\r\nTrailer: X\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: 1\r\n\r\nHEAD / HTTP/1.1\r\nHost: db\r\n\r\n",
  "GET http://db/a HTTP/1.1\r\nHost: other\r\nConnection: close, x-a\r\nX-A: 1\r\n\r\n",
  "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
  "OPTIONS * HTTP/1.1\r\nHost: db\r\nTE: trailers\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
  "GET /chat HTTP/1.1\r\nHost: db\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n",
  "CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\n\r\n",
].map(text);

export const WORDS: readonly string[] = [
  ..."\r\n|\r\n\r\n|\n|\r|:| |\t|\0|,|;|0|+|-|#|@|_".split("|"),
  "Content-Length: ",
  "Content-Length: 3\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: ",
  "Host: ",
  "Connection: ",
  "close",
  "keep-alive",
  "Upgrade: ",
  "Expect: 100-continue\r\n",
  "HTTP/1.0",
  "HTTP/1.1",
  "chunked",
  "0\r\n\r\n",
  "1\r\na\r\n",
  "GET / HTTP/1.1\r\nHost: db\r\n\r\n",
  "\xa0",
  "\x85",
  "0x",
];
