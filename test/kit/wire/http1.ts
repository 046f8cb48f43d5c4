/**
 * HTTP/1.1 connections on memory streams: raw bytes on one side, a handler's events on the other.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Deadlines } from "../../../src/base/mod.ts";
import {
  type ClientConnection,
  type ClientExchange,
  DEFAULT_HTTP_LIMITS,
  FIELD,
  type Fields,
  type HttpEnd,
  type HttpLimits,
  openHttp1Client,
  type RequestHead,
  serveHttp1,
  type ServerConnection,
  type ServerExchange,
} from "../../../src/http/mod.ts";
import { type MemoryConnection, memoryPair } from "../engine/memory_pair.ts";
import { FakeClock, settle } from "../clock/clock.ts";

export const latin1Bytes = (text: string): Uint8Array =>
  Uint8Array.from(text, (character) => character.charCodeAt(0));
export const latin1Text = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

/** `name: value` of each, by the name in lower case. */
export function fieldTexts(fields: Fields): string[] {
  const texts: string[] = [];
  for (let i = 0; i < fields.length; i += FIELD) texts.push(`${fields[i]}: ${fields[i + 1]}`);
  return texts;
}

/** The end of a connection that speaks bytes. */
export class RawEnd {
  readonly connection: MemoryConnection;
  received = "";
  over: "no" | "end" | "reset" = "no";

  constructor(connection: MemoryConnection) {
    this.connection = connection;
    connection.events = {
      onData: (chunk) => void (this.received += latin1Text(chunk)),
      onEnd: () => void (this.over = "end"),
      onDrain: () => {},
      onClose: (reset) => {
        if (reset) this.over = "reset";
      },
    };
  }

  /** Sends in one piece, or one byte at a time, and waits until it was handled. */
  async send(text: string, { bytewise = false } = {}): Promise<void> {
    const bytes = latin1Bytes(text);
    if (!bytewise) this.connection.give(bytes);
    else for (let i = 0; i < bytes.length; i++) this.connection.give(bytes.subarray(i, i + 1));
    await settle();
  }

  /** Returns and forgets the bytes received since the last call. */
  take(): string {
    const { received } = this;
    this.received = "";
    return received;
  }
}

/** A request as a handler saw it. */
export interface Seen {
  readonly exchange: ServerExchange;
  body: string;
  chunks: number;
  trailers: Fields | undefined;
  /** `reset REASON` where it broke. */
  state: string;
  drains: number;
}

export interface Served {
  readonly client: RawEnd;
  readonly server: ServerConnection;
  readonly clock: FakeClock;
  readonly seen: Seen[];
  /** `STATUS detail` of the codec's own answers. */
  readonly invalid: string[];
  readonly ends: HttpEnd[];
  /** The server's end of the stream. */
  readonly stream: MemoryConnection;
}

export interface ServeOptions {
  readonly limits?: Partial<HttpLimits>;
  readonly capacityBytes?: number;
  /** As soon as the head is there; nothing: the test answers. */
  readonly onRequest?: (exchange: ServerExchange, seen: Seen) => void;
  /** When the request is complete. */
  readonly onComplete?: (exchange: ServerExchange, seen: Seen) => void;
}

export function serveRaw(options: ServeOptions = {}): Served {
  const [stream, theirs] = memoryPair({ capacityBytes: options.capacityBytes ?? 65_536 });
  const clock = new FakeClock();
  const seen: Seen[] = [];
  const invalid: string[] = [];
  const ends: HttpEnd[] = [];
  const server = serveHttp1(stream, {
    limits: { ...DEFAULT_HTTP_LIMITS, ...options.limits },
    deadlines: new Deadlines(clock),
    events: {
      onRequest(exchange) {
        const one: Seen = {
          exchange,
          body: "",
          chunks: 0,
          trailers: undefined,
          state: "open",
          drains: 0,
        };
        seen.push(one);
        exchange.events = {
          onData(chunk) {
            assert.ok(chunk.length > 0, "an empty chunk was delivered");
            one.body += latin1Text(chunk);
            one.chunks++;
          },
          onEnd(trailers) {
            one.trailers = trailers;
            one.state = "complete";
            options.onComplete?.(exchange, one);
          },
          onDrain: () => void one.drains++,
          onReset: (reason) => void (one.state = `reset ${reason}`),
        };
        options.onRequest?.(exchange, one);
        if (!exchange.endsWithHead) return;
        one.state = "complete";
        options.onComplete?.(exchange, one);
      },
      onInvalid: (status, detail) => void invalid.push(`${status} ${detail}`),
      onClose: (end) => void ends.push(end),
    },
  });
  return { client: new RawEnd(theirs), server, clock, seen, invalid, ends, stream };
}

/** Answers 200 with `text`: the shortest handler. */
export function answer(exchange: ServerExchange, text = "ok", fields: Fields = []): void {
  exchange.respond({ status: 200, length: text.length, fields }, text === "");
  if (text === "") return;
  exchange.send(latin1Bytes(text));
  exchange.end();
}

/** A response as the client saw it. */
export interface Reply {
  readonly exchange: ClientExchange;
  /** `STATUS`, then fields. */
  readonly informational: string[];
  status: number;
  length: number;
  fields: string[];
  body: string;
  trailers: Fields | undefined;
  /** `open`, `complete`, `tunnel` or `reset REASON`. */
  state: string;
  drains: number;
}

export interface Http1ClientRig {
  readonly server: RawEnd;
  readonly client: ClientConnection;
  readonly stream: MemoryConnection;
  readonly ends: HttpEnd[];
  capacityCalls: number;
  request(head?: Partial<RequestHead>, options?: RigRequestOptions): Reply;
}

interface RigRequestOptions {
  readonly ends?: boolean;
  readonly onTunnel?: (exchange: ClientExchange) => void;
}

export function http1ClientRig(
  options: { readonly limits?: Partial<HttpLimits>; readonly capacityBytes?: number } = {},
): Http1ClientRig {
  const [stream, theirs] = memoryPair({ capacityBytes: options.capacityBytes ?? 65_536 });
  const ends: HttpEnd[] = [];
  const client = openHttp1Client(stream, {
    limits: { ...DEFAULT_HTTP_LIMITS, ...options.limits },
    events: {
      onCapacity: () => void asked.capacityCalls++,
      onClose: (end) => void ends.push(end),
    },
  });
  const asked: Http1ClientRig = {
    server: new RawEnd(theirs),
    client,
    stream,
    ends,
    capacityCalls: 0,
    request: (head = {}, { ends = true, onTunnel } = {}) => {
      const reply = {
        informational: [] as string[],
        status: 0,
        length: 0,
        fields: [] as string[],
        body: "",
        trailers: undefined as Fields | undefined,
        state: "open",
        drains: 0,
      };
      const exchange = client.request(requestHead(head), ends, {
        onInformational: ({ status, fields }) =>
          void reply.informational.push([String(status), ...fieldTexts(fields)].join(" ")),
        onResponse(response, ends) {
          reply.status = response.status;
          reply.length = response.length;
          reply.fields = fieldTexts(response.fields);
          if (ends) reply.state = "complete";
          onTunnel?.(exchange);
        },
        onData(chunk) {
          assert.ok(chunk.length > 0, "an empty chunk was delivered");
          reply.body += latin1Text(chunk);
        },
        onEnd(trailers) {
          reply.trailers = trailers;
          reply.state = "complete";
        },
        onDrain: () => void reply.drains++,
        onReset: (reason) => void (reply.state = `reset ${reason}`),
      });
      return Object.assign(reply, { exchange });
    },
  };
  return asked;
}

export function requestHead(head: Partial<RequestHead> = {}): RequestHead {
  return {
    method: "GET",
    scheme: "http",
    authority: "db",
    path: "/",
    upgrade: "",
    length: 0,
    saysLength: false,
    expectsContinue: false,
    fields: [],
    version: "HTTP/1.1",
    ...head,
  };
}
