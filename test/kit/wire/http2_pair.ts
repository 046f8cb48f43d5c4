/**
 * Our HTTP/2 client and server on two ends of memory, and exchanges that record their events.
 *
 * @module
 */

import { Deadlines } from "../../../src/base/mod.ts";
import {
  type ClientConnection,
  DEFAULT_HTTP_LIMITS,
  type Fields,
  type HttpEnd,
  type HttpLimits,
  openHttp2Client,
  type RequestHead,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
} from "../../../src/http/mod.ts";
import { type MemoryConnection, memoryPair } from "../engine/memory_pair.ts";
import { FakeClock } from "../clock/clock.ts";

/** The events of an exchange. */
export class ExchangeRecorder implements ResponseEvents {
  readonly chunks: Uint8Array[] = [];
  readonly informational: ResponseHead[] = [];
  response: ResponseHead | undefined;
  ended = false;
  trailers: Fields | undefined;
  drained = 0;
  reset: { readonly reason: ResetReason; readonly detail: string } | undefined;
  /** Called with each chunk, and at the end. */
  then: () => void = () => {};

  get bytes(): number {
    return this.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  get text(): string {
    return this.chunks.map((chunk) => new TextDecoder("latin1").decode(chunk)).join("");
  }

  onInformational(head: ResponseHead): void {
    this.informational.push(head);
  }
  onResponse(head: ResponseHead, ends: boolean): void {
    this.response = head;
    this.ended = ends;
    this.then();
  }
  onData(chunk: Uint8Array): void {
    this.chunks.push(chunk);
    this.then();
  }
  onEnd(trailers: Fields | undefined): void {
    this.ended = true;
    this.trailers = trailers;
    this.then();
  }
  onDrain(): void {
    this.drained++;
  }
  onReset(reason: ResetReason, detail: string): void {
    if (this.reset) throw new Error(`Reset again: ${detail}`);
    this.reset = { reason, detail };
  }
}

export interface Http2Pair {
  readonly client: ClientConnection;
  readonly server: ServerConnection;
  /** The client's end of the connection, and the server's. */
  readonly ends: readonly [MemoryConnection, MemoryConnection];
  readonly clock: FakeClock;
  /** Requests in the order they came. */
  readonly requests: { readonly exchange: ServerExchange; readonly recorded: ExchangeRecorder }[];
  readonly invalid: (readonly [status: number, detail: string])[];
  readonly clientEnds: HttpEnd[];
  readonly serverEnds: HttpEnd[];
  capacityCalls: number;
}

interface Http2PairOptions {
  readonly limits?: Partial<HttpLimits>;
  readonly clientLimits?: Partial<HttpLimits>;
  /** Called with each request; does nothing unless given. */
  readonly onRequest?: (exchange: ServerExchange, recorded: ExchangeRecorder) => void;
  readonly capacityBytes?: number;
}

export function http2Pair(options: Http2PairOptions = {}): Http2Pair {
  const ends = memoryPair({ capacityBytes: options.capacityBytes ?? 65_536 });
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  const requests: Http2Pair["requests"] = [];
  const invalid: (readonly [number, string])[] = [];
  const clientEnds: HttpEnd[] = [];
  const serverEnds: HttpEnd[] = [];
  const limits = { ...DEFAULT_HTTP_LIMITS, ...options.limits };
  const server = serveHttp2(ends[1], {
    limits,
    clock,
    deadlines,
    events: {
      onRequest(exchange) {
        const recorded = new ExchangeRecorder();
        exchange.events = recorded;
        requests.push({ exchange, recorded });
        options.onRequest?.(exchange, recorded);
      },
      onInvalid: (status, detail) => void invalid.push([status, detail]),
      onClose: (end) => void serverEnds.push(end),
    },
  });
  const pair: Http2Pair = {
    client: openHttp2Client(ends[0], {
      limits: { ...limits, ...options.clientLimits },
      clock,
      deadlines,
      events: {
        onCapacity: () => void pair.capacityCalls++,
        onClose: (end) => void clientEnds.push(end),
      },
    }),
    server,
    ends,
    clock,
    requests,
    invalid,
    clientEnds,
    serverEnds,
    capacityCalls: 0,
  };
  return pair;
}

export function requestHead(head: Partial<RequestHead> = {}): RequestHead {
  return {
    method: "GET",
    scheme: "http",
    authority: "db.example",
    path: "/",
    upgrade: "",
    length: 0,
    saysLength: false,
    expectsContinue: false,
    fields: [],
    version: "HTTP/2",
    ownNames: undefined,
    ...head,
  };
}

export function bytes(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
