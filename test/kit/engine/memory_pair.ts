/**
 * Two ends of a connection without a network, for tests of code between connections. An end keeps the
 * promises of a socket, calls back never within the call that caused it, and always in the same order.
 *
 * @module
 */

import { type Connection, ignoredEvents, type StreamEvents } from "../../../src/net/port.ts";

interface MemoryPairOptions {
  /**
   * The bytes that each direction holds before `write` says stop, as a socket's buffers do; default 64
   * KiB.
   */
  readonly capacityBytes?: number;
  /** `remote` of the first end. */
  readonly remote?: string;
}

/** Each end receives the bytes that the other one writes. */
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
  /** Written and not delivered yet. */
  readonly #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #full = false;
  #paused = false;
  /** State of our half; `ended` once `onEnd` of the peer was called. */
  #half: "open" | "ending" | "ended" = "open";
  #leaving = false;
  #closed: "no" | "close pending" | "reset pending" | "reported" = "no";
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

  /** Whether `onClose` was called. */
  get closed(): boolean {
    return this.#closed === "reported";
  }

  write(chunk: Uint8Array): boolean {
    return this.give(new Uint8Array(chunk));
  }

  give(chunk: Uint8Array): boolean {
    if (this.#closed !== "no" || this.#half !== "open") return true;
    // A write to a closed end is answered with a reset.
    if (this.#peer?.closedOrClosing) {
      this.#finish("reset pending");
      return true;
    }
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#schedule();
    this.#full ||= this.#queuedBytes > this.#capacityBytes;
    return !this.#full;
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
    this.#finish("close pending");
    this.#peer?.broken();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#peer?.moved();
  }

  /** The other end reset the connection: chunks under way are lost. */
  broken(): void {
    if (this.#closed === "no") this.#finish("reset pending");
  }

  /** The other end reads again. */
  moved(): void {
    this.#schedule();
  }

  get closedOrClosing(): boolean {
    return this.#closed !== "no" || this.#leaving;
  }

  #finish(how: "close pending" | "reset pending"): void {
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
    if (!peer || this.#closed === "reported") return;
    if (this.#closed !== "no") return this.#reportClose();
    const chunk = peer.#takes() ? this.#queue.shift() : undefined;
    if (chunk) {
      this.#queuedBytes -= chunk.length;
      this.#schedule();
      if (peer.#closed === "no" && !peer.#leaving) peer.events.onData(chunk);
      if (this.#full && this.#queuedBytes <= this.#capacityBytes && this.#closed === "no") {
        this.#full = false;
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
    if (done) this.#finish("close pending");
  }

  /** A closed end takes every chunk and drops it. */
  #takes(): boolean {
    return !this.#paused || this.closedOrClosing;
  }

  #reportClose(): void {
    const reset = this.#closed === "reset pending";
    this.#closed = "reported";
    const { events } = this;
    this.events = ignoredEvents;
    events.onClose(reset, "");
  }
}
