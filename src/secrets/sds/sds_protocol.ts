/**
 * What both variants of the protocol share: whom they tell, and when a response is answered.
 *
 * @module
 */

import { Backoff, type Clock, type Random, type Timer } from "../../base/mod.ts";
import type { ErrorDetail, ReadSecret } from "./sds_messages.ts";

/** A resource that was asked for and can be read. */
export interface OfferedSecret {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
  readonly read: ReadSecret;
}

/** Who uses the secrets. Called only while a message is dealt with, or by a timer (TTL). */
export interface ProtocolHost {
  /** Takes it into use; what comes back refuses it. Never rejects. */
  accept(offered: OfferedSecret): Promise<string | undefined>;
  /** A response to do with this name cannot be used, for a reason not told by `accept`. */
  rejected(name: string, reason: string): void;
  /** The server says that there is none, or its time to live has run out. */
  removed(name: string): void;
}

/** One stream after the other, over which the subscription and what is known live on. */
export interface SdsProtocol<Response> {
  readonly names: ReadonlySet<string>;
  /** All is held: a server where nothing has changed need not answer a new stream. */
  readonly isComplete: boolean;
  /** Tells the server if there is a stream. Never down to no name at all: end the stream for that. */
  change(subscribe: readonly string[], unsubscribe: readonly string[]): void;
  /** A stream is there: sends the first request. */
  opened(): void;
  /** The stream is gone; what comes of its messages still being dealt with sends nothing. */
  closed(): void;
  /** Resolves when it has been dealt with; later ones wait. */
  message(response: Response): Promise<void>;
  /** Ends timers. */
  close(): void;
}

export interface ProtocolOptions<Request> {
  readonly send: (request: Request) => void;
  readonly host: ProtocolHost;
  readonly clock: Clock;
  readonly random: Random;
}

/** gRPC's INTERNAL, as Envoy says it. */
const REFUSED_CODE = 13;
const DETAIL_LIMIT = 4096;
const TRUNCATED = "... (truncated)";

/** What is wrong with a response; empty: nothing. */
export class ResponseFaults {
  readonly #texts: string[] = [];
  #length = 0;

  get any(): boolean {
    return this.#texts.length > 0;
  }

  add(text: string): void {
    // One more than fits shows that there was more.
    if (this.#length <= DETAIL_LIMIT) this.#texts.push(text);
    this.#length += text.length + 2;
  }

  detail(): ErrorDetail {
    const text = this.#texts.join("; ");
    const message = text.length <= DETAIL_LIMIT
      ? text
      : text.slice(0, DETAIL_LIMIT - TRUNCATED.length) + TRUNCATED;
    return { code: REFUSED_CODE, message };
  }
}

/**
 * Sends what answers a response. A refusal goes out at once; one after another is put off more and more,
 * because there are servers that offer the same again at once and for ever.
 */
export class Answers {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  #timer: Timer | undefined;
  #waiting: (() => void) | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#backoff = new Backoff({ baseMs: 200, maxMs: 10_000, random });
  }

  taken(send: () => void): void {
    this.drop();
    this.#backoff.reset();
    send();
  }

  refused(send: () => void): void {
    this.drop();
    const first = this.#backoff.failures === 0;
    const delayMs = this.#backoff.next();
    if (first) return send();
    this.#waiting = send;
    this.#timer = this.#clock.after(delayMs, () => this.flush());
  }

  /** Sends what is put off; false: there was nothing. */
  flush(): boolean {
    const send = this.#waiting;
    this.drop();
    send?.();
    return send !== undefined;
  }

  /** Another response makes an answer to the last one worthless. */
  drop(): void {
    this.#timer?.cancel();
    this.#waiting = undefined;
  }
}
