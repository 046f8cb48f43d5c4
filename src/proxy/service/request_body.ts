/** The body of a request on a listener with plugins: passed on, kept, or read. @module */

import type { Fields, HeldShare } from "../../http/mod.ts";
import { joined, OpenedBody, type PassingSource } from "../../plugin/mod.ts";
import type { RequestHandle, ResponseSink } from "../upstream/upstream_request.ts";

export class RequestBody implements PassingSource {
  readonly tooLong = "request_too_large";
  readonly #caller: Pick<ResponseSink, "bodyWanted" | "bodyHeld">;
  readonly #held: HeldShare | undefined;
  #to: RequestHandle | undefined;
  #opened: OpenedBody | undefined;
  readonly #kept: Uint8Array[] = [];
  /** Kept bytes, and their limit. */
  #keptBytes = 0;
  #keepBytes = 0;
  /** Bytes that a plugin read and did not pass on, which are still in memory. */
  #readBytes = 0;
  #isWhole = true;
  #ended = false;
  #trailers: Fields | undefined;

  /** Nothing is kept for retries while the memory of `held` is tight; `undefined`: no limit. */
  constructor(caller: Pick<ResponseSink, "bodyWanted" | "bodyHeld">, held: HeldShare | undefined) {
    this.#caller = caller;
    this.#held = held;
  }

  /** A plugin has read all that arrived, and waits for the caller. */
  get waitsForCaller(): boolean {
    return this.#opened?.waitsForSender === true;
  }

  /** All that arrived so far is kept. */
  get isReplayable(): boolean {
    return this.#isWhole;
  }

  keep(limitBytes: number): void {
    this.#keepBytes = Math.max(this.#keepBytes, limitBytes);
  }

  kept(): Uint8Array<ArrayBuffer> | undefined {
    if (!this.#ended || !this.#isWhole) return undefined;
    return joined(this.#kept, this.#keptBytes);
  }

  open(): ReadableStream<Uint8Array> {
    if (!this.#isWhole) throw new TypeError("body: some of it was sent already");
    const opened = this.#opened = new OpenedBody({
      more: () => this.#caller.bodyWanted(),
      cancel: () => this.#drop(),
    });
    for (const chunk of this.#kept) opened.put(chunk);
    if (this.#ended) opened.end();
    return opened.stream;
  }

  /** Takes a chunk of the caller. False: stop until `bodyWanted`. */
  send(chunk: Uint8Array): boolean {
    if (this.#opened) {
      this.#readBytes += chunk.length;
      this.#held?.holdRead(chunk.length);
      return this.#opened.put(chunk);
    }
    if (this.#isWhole) this.#keep(chunk);
    return this.#to ? this.#to.send(chunk) : true;
  }

  #keep(chunk: Uint8Array): void {
    const { length } = chunk;
    const isTooMuch = this.#keptBytes + length > this.#keepBytes;
    if (isTooMuch || this.#held?.account.isTight) return this.forget();
    this.#held?.hold(length);
    this.#keptBytes += length;
    this.#kept.push(chunk.slice());
  }

  /** The body will not be sent again. */
  forget(): void {
    this.#isWhole = false;
    this.#held?.release(this.#keptBytes);
    this.#keptBytes = 0;
    this.#kept.length = 0;
  }

  /** The bytes that a plugin read were passed on, or replaced. */
  sentOn(): void {
    this.#held?.release(this.#readBytes);
    this.#readBytes = 0;
  }

  #drop(): void {
    this.#opened = undefined;
    this.#to = undefined;
    this.sentOn();
    this.forget();
  }

  end(trailers: Fields | undefined): void {
    this.#ended = true;
    this.#trailers = trailers;
    this.#opened?.end();
    this.#to?.end(trailers);
  }

  /** An endpoint takes the body from its beginning, or more of it. */
  passTo(to: RequestHandle): void {
    if (this.#to !== to) {
      this.#to = to;
      for (const chunk of this.#kept) to.send(chunk.slice());
      if (this.#ended) return to.end(this.#trailers);
    }
    this.#caller.bodyWanted();
  }

  /** The attempt that took the body was abandoned. */
  hold(): void {
    this.#to = undefined;
    this.#caller.bodyHeld();
  }

  /** No more of the body will arrive. */
  abandon(reason: string): void {
    if (!this.#ended) this.#opened?.fail("downstream_reset", reason);
    this.#drop();
  }
}
