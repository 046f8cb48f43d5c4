/**
 * The body of a request that plugins stand around: it passes to the endpoint that is tried, is kept as it
 * passes where it may be sent again, or is read by a plugin.
 *
 * @module
 */

import type { Fields, HeldShare } from "../../http/mod.ts";
import { OpenedBody, type PassingSource } from "../../plugin/mod.ts";
import type { RequestHandle, ResponseSink } from "../upstream/upstream_request.ts";

export class RequestBody implements PassingSource {
  readonly tooLong = "request_too_large";
  readonly #caller: Pick<ResponseSink, "bodyWanted" | "bodyHeld">;
  readonly #held: HeldShare | undefined;
  #to: RequestHandle | undefined;
  #opened: OpenedBody | undefined;
  readonly #kept: Uint8Array[] = [];
  /** Of what is kept, and how much may be. */
  #keptBytes = 0;
  #keepBytes = 0;
  /** Of what a plugin read and did not send on: it is still in memory. */
  #readBytes = 0;
  #isWhole = true;
  #ended = false;
  #trailers: Fields | undefined;

  /** `held`: where it is counted; while its account is tight bodies are not kept, and sent once. */
  constructor(caller: Pick<ResponseSink, "bodyWanted" | "bodyHeld">, held: HeldShare | undefined) {
    this.#caller = caller;
    this.#held = held;
  }

  /** A plugin has read all that came, and waits for the caller. */
  get waitsForCaller(): boolean {
    return this.#opened?.waitsForSender === true;
  }

  /** All that was read of it is here. */
  get isReplayable(): boolean {
    return this.#isWhole;
  }

  keep(limitBytes: number): void {
    this.#keepBytes = Math.max(this.#keepBytes, limitBytes);
  }

  kept(): Uint8Array<ArrayBuffer> | undefined {
    if (!this.#ended || !this.#isWhole) return undefined;
    const all = new Uint8Array(this.#keptBytes);
    let at = 0;
    for (const chunk of this.#kept) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
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

  /** From the caller. False: stop until it is asked for more. */
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

  /** It will not be sent again. */
  forget(): void {
    this.#isWhole = false;
    this.#held?.release(this.#keptBytes);
    this.#keptBytes = 0;
    this.#kept.length = 0;
  }

  /** What a plugin read has gone on, or something in its place. */
  sentOn(): void {
    this.#held?.release(this.#readBytes);
    this.#readBytes = 0;
  }

  /** Nothing of it is wanted any more. */
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

  /** An endpoint takes it, from its beginning, or more of it. */
  passTo(to: RequestHandle): void {
    if (this.#to !== to) {
      this.#to = to;
      for (const chunk of this.#kept) to.send(chunk.slice());
      if (this.#ended) return to.end(this.#trailers);
    }
    this.#caller.bodyWanted();
  }

  /** Whoever took it is given up. */
  hold(): void {
    this.#to = undefined;
    this.#caller.bodyHeld();
  }

  /** There will not be more of it. */
  abandon(reason: string): void {
    if (!this.#ended) this.#opened?.fail("downstream_reset", reason);
    this.#drop();
  }
}
