/**
 * Two ends of a connection without a network, for tests of what lives between connections: the same
 * promises as a socket's, nothing said within the call that caused it, and the same order every time.
 *
 * @module
 */

import { type Connection, ignoredEvents, type StreamEvents } from "./port.ts";

export interface MemoryPairOptions {
  /** What each direction holds before `write` says stop, as a socket's buffers do; default 64 KiB. */
  readonly capacityBytes?: number;
  /** Where the first end's peer is said to be. */
  readonly remote?: string;
}

/** What one end writes is what the other is told. */
export function memoryPair(
  options: MemoryPairOptions = {},
): readonly [MemoryConnection, MemoryConnection] {
  const { capacityBytes = 65_536, remote = "other" } = options;
  const one = new MemoryConnection("one", remote, capacityBytes);
  const other = new MemoryConnection("other", "one", capacityBytes);
  one.connect(other);
  other.connect(one);
  return [one, other];
}

export class MemoryConnection implements Connection {
  events: StreamEvents = ignoredEvents;
  readonly remote: string;
  readonly local: string;
  readonly #capacityBytes: number;
  #peer: MemoryConnection | undefined;
  /** On its way to the peer. */
  readonly #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #asked = false;
  #paused = false;
  /** Our half: `ended` once the peer was told. */
  #half: "open" | "ending" | "ended" = "open";
  #leaving = false;
  #closed: "no" | "told" | "to tell" | "to tell reset" = "no";
  #scheduled = false;

  constructor(local: string, remote: string, capacityBytes: number) {
    this.local = local;
    this.remote = remote;
    this.#capacityBytes = capacityBytes;
  }

  connect(peer: MemoryConnection): void {
    this.#peer = peer;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Whether nothing more will be told. */
  get closed(): boolean {
    return this.#closed === "told";
  }

  write(chunk: Uint8Array): boolean {
    return this.give(new Uint8Array(chunk));
  }

  give(chunk: Uint8Array): boolean {
    if (this.#closed !== "no" || this.#half !== "open") return true;
    // Who writes to somebody who has left is answered with a reset.
    if (this.#peer?.closedOrClosing) {
      this.#finish("to tell reset");
      return true;
    }
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#schedule();
    this.#asked ||= this.#queuedBytes > this.#capacityBytes;
    return !this.#asked;
  }

  end(): void {
    if (this.#half !== "open") return;
    this.#half = "ending";
    this.#schedule();
  }

  close(): void {
    if (this.#closed !== "no") return;
    this.#leaving = true;
    this.end();
    this.#schedule();
  }

  reset(): void {
    if (this.#closed !== "no") return;
    this.#finish("to tell");
    this.#peer?.broken();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#peer?.moved();
  }

  /** The other end broke it: what was on its way is lost. */
  broken(): void {
    if (this.#closed === "no") this.#finish("to tell reset");
  }

  /** The other end may take more. */
  moved(): void {
    this.#schedule();
  }

  get closedOrClosing(): boolean {
    return this.#closed !== "no" || this.#leaving;
  }

  #finish(how: "to tell" | "to tell reset"): void {
    this.#closed = how;
    this.#queue.length = 0;
    this.#queuedBytes = 0;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#run();
    });
  }

  /** One step: one chunk, the end, or the close, so that ends of a test's connections take turns. */
  #run(): void {
    const peer = this.#peer;
    if (!peer || this.#closed === "told") return;
    if (this.#closed !== "no") return this.#tellClose();
    const chunk = peer.#takes() ? this.#queue.shift() : undefined;
    if (chunk) {
      this.#queuedBytes -= chunk.length;
      this.#schedule();
      if (peer.#closed === "no" && !peer.#leaving) peer.events.onData(chunk);
      if (this.#asked && this.#queuedBytes <= this.#capacityBytes && this.#closed === "no") {
        this.#asked = false;
        if (this.#half === "open") this.events.onDrain();
      }
      return;
    }
    if (this.#half === "ending" && this.#queue.length === 0 && peer.#takes()) {
      this.#half = "ended";
      this.#schedule();
      peer.#schedule();
      if (peer.#closed === "no" && !peer.#leaving) peer.events.onEnd();
      return;
    }
    const done = this.#half === "ended" && (this.#leaving || peer.#half === "ended");
    if (done) this.#finish("to tell");
  }

  /** Somebody who left takes everything, and looks at nothing. */
  #takes(): boolean {
    return !this.#paused || this.closedOrClosing;
  }

  #tellClose(): void {
    const reset = this.#closed === "to tell reset";
    this.#closed = "told";
    const { events } = this;
    this.events = ignoredEvents;
    events.onClose(reset, "");
  }
}
