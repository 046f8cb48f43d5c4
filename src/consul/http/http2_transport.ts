/**
 * Requests and their whole replies over one HTTP/2 connection to one of Consul's servers: all of a
 * proxy's waits on it at once, so that a server that counts connections per address counts one. A
 * connection that the server ends in order is followed by another; one that is lost is for others to act
 * on. Knows nothing of Consul; every wait and every size is bounded.
 *
 * @module
 */

import { type Address, Deadlines, formatAddress, ProxyError } from "../../base/mod.ts";
import {
  AskAgain,
  givenUp,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "./carrier.ts";
import { Http2Line, type Http2LineOptions } from "./http2_line.ts";
import { Http2Request, RefusedRequest } from "./http2_request.ts";

export interface Http2TransportOptions extends Pick<Http2LineOptions, "engine" | "clock" | "tls"> {
  readonly address: Address;
  /** Of all replies that have begun and are not complete; absent: 64 MiB. */
  readonly heldBytes?: number;
}

/** Requests that wait for the connection, or for one of its streams. */
const WAITING_LIMIT = 1_000;
const HELD_LIMIT_BYTES = 64 << 20;
/** A server that drains its connections sooner than this takes no requests. */
const DRAINED_SOON_MS = 1_000;

export class Http2Transport implements WireTransport {
  readonly where: string;
  readonly #options: Http2TransportOptions;
  readonly #deadlines: Deadlines;
  readonly #running = new Set<Http2Request>();
  /** For new requests, also while it is dialled. */
  #line: { readonly line: Http2Line; readonly sinceMs: number } | undefined;
  #waiting: Http2Request[] = [];
  #heldBytes = 0;
  #closed = false;
  #retired = false;

  constructor(options: Http2TransportOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock);
    this.where = `https://${formatAddress(options.address)}`;
  }

  async send(wire: WireRequest): Promise<WireReply> {
    try {
      return await this.#sendOnce(wire);
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error;
      // Where it goes on from is for the watch to say.
      if (wire.waits) throw new AskAgain(error.message);
      return await this.#sendOnce(wire);
    }
  }

  close(): void {
    this.#closed = true;
    for (const request of [...this.#running]) request.fail(givenUp());
    this.#line?.line.close();
    this.#line = undefined;
  }

  retire(): void {
    this.#retired = true;
    if (this.#running.size === 0) this.close();
  }

  /** There is one connection, and it carries something all the time. */
  dropIdle(): void {}

  #sendOnce(wire: WireRequest): Promise<WireReply> {
    if (this.#closed || wire.signal?.aborted) return Promise.reject(givenUp());
    if (this.#waiting.length >= WAITING_LIMIT) {
      return Promise.reject(this.#unreachable(`${WAITING_LIMIT} requests wait for it`));
    }
    const { clock, address, tls, heldBytes = HELD_LIMIT_BYTES } = this.#options;
    const request: Http2Request = new Http2Request(wire, {
      clock,
      where: `the Consul server at ${this.where}`,
      authority: tls.serverName || formatAddress(address),
      hold: (bytes) => (this.#heldBytes += bytes) <= heldBytes,
      onEnd: () => this.#ended(request),
    });
    this.#running.add(request);
    this.#waiting.push(request);
    this.#pump();
    return request.reply;
  }

  #ended(request: Http2Request): void {
    this.#running.delete(request);
    this.#waiting = this.#waiting.filter((waiting) => waiting !== request);
    if (this.#retired && this.#running.size === 0) this.close();
  }

  #pump(): void {
    if (this.#waiting.length === 0 || this.#closed) return;
    this.#line ??= this.#dial();
    const { line } = this.#line;
    while (line.capacity > 0) {
      const request = this.#waiting.shift();
      if (!request) return;
      request.start((head, ends, events) => line.request(head, ends, events));
    }
  }

  #dial(): { readonly line: Http2Line; readonly sinceMs: number } {
    const { clock } = this.#options;
    const line: Http2Line = new Http2Line({
      ...this.#options,
      deadlines: this.#deadlines,
      onChange: () => this.#changed(line),
    });
    return { line, sinceMs: clock.monotonic() };
  }

  #changed(line: Http2Line): void {
    if (this.#line?.line !== line) return;
    if (line.state === "open") return this.#pump();
    const livedMs = this.#options.clock.monotonic() - this.#line.sinceMs;
    this.#line = undefined;
    if (line.state === "drained" && livedMs >= DRAINED_SOON_MS) return this.#pump();
    // Those on their way are told by their streams.
    const why = line.state === "lost" ? line.why : "the server takes no requests";
    for (const request of [...this.#waiting]) request.fail(this.#unreachable(why));
  }

  #unreachable(fact: string): ProxyError {
    const text = `Cannot reach the Consul server at ${this.where}: ${fact}`;
    return new ProxyError("agent_unreachable", text);
  }
}
