/**
 * The common part of both variants of the protocol: their interfaces, and when a response is acknowledged.
 *
 * @module
 */

import { Backoff, type Clock, type Random, type Timer } from "../base/mod.ts";
import type { ErrorDetail, ResourceType, XdsClient } from "./messages.ts";

/** A subscribed resource that can be read. */
export interface OfferedResource<T> {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
  readonly read: () => T;
}

/** Uses the resources. Called only while a message is handled, or by a timer (TTL). */
export interface ResourceHost<T> {
  /** Puts a resource into use; the returned reason refuses it. Never rejects. */
  accept(offered: OfferedResource<T>): Promise<string | undefined>;
  /** A response cannot be used for this name, for a reason that `accept` did not return. */
  rejected(name: string, reason: string): void;
  /** The server says that there is no such resource, or its time to live has run out. */
  removed(name: string): void;
}

/** One subscription over a sequence of streams: its names and versions outlive each stream. */
export interface XdsProtocol<Response> {
  readonly held: HeldState;
  /**
   * Sends a request on the open stream, if there is one. The caller ends the stream instead when no name
   * is left.
   */
  change(subscribe: readonly string[], unsubscribe: readonly string[]): void;
  /** A stream is open: sends the first request. */
  opened(): void;
  /** The stream is gone; messages of it that are still being handled send nothing. */
  closed(): void;
  /** Resolves when the response has been handled; later ones wait. */
  message(response: Response): Promise<void>;
}

/** The state that outlives a stream. */
export interface HeldState {
  readonly names: ReadonlySet<string>;
  /** A version of every name is in use, so a server with no change need not answer a new stream. */
  readonly isComplete: boolean;
  /** Ends timers. */
  close(): void;
}

export interface ProtocolOptions<T, Request> {
  readonly type: ResourceType<T>;
  readonly client: XdsClient;
  readonly send: (request: Request) => void;
  readonly host: ResourceHost<T>;
  readonly clock: Clock;
  readonly random: Random;
}

/** gRPC's INTERNAL, as Envoy sends it. */
const NACK_CODE = 13;
const DETAIL_LIMIT = 4096;
const TRUNCATED = "... (truncated)";

/** The faults of one response. */
export class ResponseFaults {
  readonly #texts: string[] = [];
  #length = 0;

  get any(): boolean {
    return this.#texts.length > 0;
  }

  add(text: string): void {
    // One more text than fits shows that there were more.
    if (this.#length <= DETAIL_LIMIT) this.#texts.push(text);
    this.#length += text.length + 2;
  }

  detail(): ErrorDetail {
    const text = this.#texts.join("; ");
    const message = text.length <= DETAIL_LIMIT
      ? text
      : text.slice(0, DETAIL_LIMIT - TRUNCATED.length) + TRUNCATED;
    return { code: NACK_CODE, message };
  }
}

/**
 * Sends ACKs and NACKs. The first NACK goes out at once; the next ones are delayed more and more, because
 * some servers offer the same response again at once and for ever.
 */
export class Acknowledgements {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  #timer: Timer | undefined;
  #delayed: (() => void) | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#backoff = new Backoff({ baseMs: 200, maxMs: 10_000, random });
  }

  ack(send: () => void): void {
    this.drop();
    this.#backoff.reset();
    send();
  }

  nack(send: () => void): void {
    this.drop();
    const isFirst = this.#backoff.failures === 0;
    const delayMs = this.#backoff.next();
    if (isFirst) return send();
    this.#delayed = send;
    this.#timer = this.#clock.after(delayMs, () => this.flush());
  }

  /** Sends the delayed NACK; false: there was none. */
  flush(): boolean {
    const send = this.#delayed;
    this.drop();
    send?.();
    return send !== undefined;
  }

  /** A newer response makes the delayed NACK worthless. */
  drop(): void {
    this.#timer?.cancel();
    this.#delayed = undefined;
  }
}
