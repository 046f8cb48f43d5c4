/**
 * What is read of a connection, in its order: handled in the callback that read it, held back while
 * nobody may be told of it, and gone on with later, never within the call that allows it. What is held is
 * the rest of what was read already; no more is read meanwhile.
 *
 * @module
 */

import type { Stream, StreamEvents } from "../../net/mod.ts";
import type { HeldAccount } from "../held_bytes.ts";
import { Tunnel } from "./tunnel.ts";

/** Where bytes that wait are counted. */
type Count = Pick<HeldAccount, "hold" | "release">;

export abstract class InputReader implements StreamEvents {
  readonly stream: Stream;
  protected readonly account: HeldAccount;
  readonly #limitBytes: number;
  /** What the connection has become. */
  protected tunnelled: Tunnel | undefined;
  /** Bytes of the chunk that is read which are not handled yet. */
  protected inHand = 0;
  protected peerEnded = false;
  /** The peer's end has been seen to, after all that came before it. */
  #endSeen = false;
  /** What was written last waits for the peer to read. */
  blocked = false;
  #held: Uint8Array | undefined;
  /** Bytes that were written and wait for the peer, and where they are counted. */
  #unsent = 0;
  #unsentAt: Count | undefined;
  #holding = false;
  #reading = false;
  /** A message is complete, and its exchange has not been told yet. */
  #owesEnd = false;
  readonly #later = () => this.#goOn();

  constructor(stream: Stream, { limitBytes, account }: {
    readonly limitBytes: number;
    readonly account: HeldAccount;
  }) {
    this.stream = stream;
    this.account = account;
    this.#limitBytes = limitBytes;
    stream.events = this;
  }

  abstract readonly isOver: boolean;
  /** Handles what begins at `at`: where that ends, which is further, unless it holds. */
  protected abstract step(chunk: Uint8Array, at: number): number;
  /** The message that was read is complete: tells its exchange. */
  protected abstract tellEnd(): void;
  /** The peer ended its half, and everything before that was handled. */
  protected abstract peerIsDone(): void;
  /** More came, while nothing was to be read, than an engine could have had in hand. */
  protected abstract overflow(): void;
  abstract onDrain(): void;
  abstract onClose(reset: boolean, alert: string): void;

  /** Whether something came that has not been handled. */
  protected get hasMore(): boolean {
    return this.inHand > 0 || this.#held !== undefined;
  }

  onData(chunk: Uint8Array): void {
    if (this.isOver) return;
    if (this.#held) this.#keep(chunk, 0);
    else this.#read(chunk);
  }

  onEnd(): void {
    this.peerEnded = true;
    if (!this.#held && !this.#owesEnd) this.#seeEnd();
  }

  /**
   * What a write of so many bytes said: false is passed on, and remembered until the stream has drained.
   * `count`: where they are counted until then.
   */
  took(all: boolean, size: number, count: Count): boolean {
    if (all) return true;
    this.blocked = true;
    this.#unsentAt ??= count;
    this.#unsent += size;
    this.#unsentAt.hold(size);
    return false;
  }

  /** Nothing that was written waits any more. */
  protected sent(): void {
    this.blocked = false;
    this.#unsentAt?.release(this.#unsent);
    this.#unsentAt = undefined;
    this.#unsent = 0;
  }

  /** Nothing waits any more. */
  protected over(): void {
    this.sent();
    this.#hold(undefined);
  }

  #hold(chunk: Uint8Array | undefined): void {
    const more = (chunk?.length ?? 0) - (this.#held?.length ?? 0);
    this.#held = chunk;
    if (more > 0) this.account.hold(more);
    else this.account.release(-more);
  }

  hold(): void {
    if (this.#holding) return;
    this.#holding = true;
    this.stream.pause();
  }

  release(): void {
    if (!this.#holding) return;
    this.#holding = false;
    const waits = this.#held || this.#owesEnd || this.peerEnded && !this.#endSeen;
    if (this.#reading || !waits) this.stream.resume();
    else queueMicrotask(this.#later);
  }

  tunnel(): Stream {
    const tunnel = this.tunnelled = new Tunnel(this);
    // An end that came before it is the tunnel's to tell.
    this.hold();
    this.#endSeen = false;
    this.release();
    return tunnel;
  }

  /** The message that was read is complete. */
  protected endMessage(): void {
    if (this.#holding) this.#owesEnd = true;
    else this.tellEnd();
  }

  /** Nothing of what came is of interest any more. */
  protected forget(): void {
    this.#hold(undefined);
    this.#owesEnd = false;
  }

  #goOn(): void {
    if (this.#holding || this.#reading || this.isOver) return;
    if (this.#owesEnd) {
      this.#owesEnd = false;
      this.tellEnd();
      if (this.#holding) return;
    }
    const held = this.#held;
    this.#hold(undefined);
    if (held) this.#read(held);
    if (this.#holding) return;
    if (this.peerEnded) this.#seeEnd();
    this.stream.resume();
  }

  #read(chunk: Uint8Array): void {
    this.#reading = true;
    let at = 0;
    while (at < chunk.length && !this.#holding) {
      this.inHand = chunk.length - at;
      if (!this.tunnelled) {
        at = this.isOver ? chunk.length : this.step(chunk, at);
        continue;
      }
      const rest = at === 0 ? chunk : chunk.subarray(at);
      at = chunk.length;
      this.tunnelled.events.onData(rest);
    }
    this.inHand = 0;
    this.#reading = false;
    if (at < chunk.length && !this.isOver) this.#keep(chunk, at);
  }

  #keep(chunk: Uint8Array, at: number): void {
    const rest = at === 0 ? chunk : chunk.subarray(at);
    const held = this.#held;
    if (!held) return this.#hold(rest);
    const length = held.length + rest.length;
    if (length > this.#limitBytes) return this.overflow();
    const both = new Uint8Array(length);
    both.set(held);
    both.set(rest, held.length);
    this.#hold(both);
  }

  #seeEnd(): void {
    if (this.#endSeen) return;
    this.#endSeen = true;
    if (this.tunnelled) this.tunnelled.events.onEnd();
    else this.peerIsDone();
  }
}
