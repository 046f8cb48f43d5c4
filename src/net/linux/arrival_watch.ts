/**
 * Peeks at the bytes that a client has sent and reports when more come. The runtime reads a socket as
 * soon as it watches it, and bytes that it has read cannot be given to a TLS handshake any more; so one
 * epoll descriptor of our own watches all these clients, and is polled while any of them waits. Only on
 * Linux, where the C library can be called.
 *
 * @module
 */

import { type Clock, systemClock, type Timer } from "../../base/mod.ts";
import { PREFACE_LIMIT_BYTES } from "../port.ts";
import { type CLibrary, cLibrary } from "./c_library.ts";
import { EVENT_BYTES, packEvent, unpackEvents } from "./epoll_watch.ts";

const MSG_PEEK = 0x02;
const MSG_DONTWAIT = 0x40;
const EPOLL_CLOEXEC = 0x80000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 0x1;
const EPOLLERR = 0x8;
const EPOLLHUP = 0x10;
const EPOLLRDHUP = 0x2000;
/** Edge-triggered: half a message does not keep the thread busy. */
const EPOLLET = 0x80000000;

/** Events of one poll. More wait for the next one. */
const BATCH = 256;
/** The first message mostly comes right after the connection; silent clients are polled ever less often. */
const SHORTEST_MS = 1;
const LONGEST_MS = 20;

/** `peerEnded`: it ended its half or broke the connection, whatever it sent before. */
export type Arrival = (peerEnded: boolean) => void;

const buffer = new Uint8Array(PREFACE_LIMIT_BYTES);
/**
 * Bytes that arrived and were not read, {@link PREFACE_LIMIT_BYTES} at most; valid until the next call.
 * Empty: the peer ended its half. Undefined: nothing yet, or the connection broke.
 */
export function peek(fd: number): Uint8Array | undefined {
  const size = cLibrary()?.recv(fd, buffer, buffer.length, MSG_PEEK | MSG_DONTWAIT) ?? -1;
  return size < 0 ? undefined : buffer.subarray(0, size);
}

/** Takes the first `size` of the bytes that {@link peek} shows; false: they are not there. */
export function discard(fd: number, size: number = buffer.length): boolean {
  return cLibrary()?.recv(fd, buffer, size, MSG_DONTWAIT) === size;
}

/** All watched clients of this thread; its descriptor is closed after the last one. */
export class ArrivalWatch {
  readonly #library: CLibrary;
  readonly #clock: Clock;
  readonly #epoll: number;
  readonly #waiting = new Map<number, Arrival>();
  readonly #events = new Uint8Array(BATCH * EVENT_BYTES);
  #lastId = 0;
  #timer: Timer | undefined;
  #delayMs = SHORTEST_MS;

  private constructor(library: CLibrary, epoll: number, clock: Clock) {
    this.#library = library;
    this.#clock = clock;
    this.#epoll = epoll;
  }

  /** Undefined: no descriptor is left. */
  static open(library: CLibrary, clock: Clock): ArrivalWatch | undefined {
    const epoll = library.epoll_create1(EPOLL_CLOEXEC);
    return epoll < 0 ? undefined : new ArrivalWatch(library, epoll, clock);
  }

  /** Returns an id for {@link remove}; undefined: the kernel refused. */
  add(fd: number, arrived: Arrival): number | undefined {
    // Not the descriptor: the number of a closed one is soon reused.
    const id = this.#lastId = this.#lastId % 0xffff_ffff + 1;
    const event = packEvent({ events: EPOLLIN | EPOLLRDHUP | EPOLLET, data: BigInt(id) });
    if (this.#library.epoll_ctl(this.#epoll, EPOLL_CTL_ADD, fd, event) !== 0) {
      this.#closeIfIdle();
      return undefined;
    }
    this.#waiting.set(id, arrived);
    this.#pollIn(SHORTEST_MS);
    return id;
  }

  /** `fd` is -1 after its close: the kernel has forgotten it then. */
  remove(id: number, fd: number): void {
    if (!this.#waiting.delete(id)) return;
    if (fd >= 0) this.#library.epoll_ctl(this.#epoll, EPOLL_CTL_DEL, fd, this.#events);
    this.#closeIfIdle();
  }

  #closeIfIdle(): void {
    if (this.#waiting.size > 0) return;
    this.#timer?.cancel();
    this.#library.close(this.#epoll);
    if (arrivals === this) arrivals = undefined;
  }

  #pollIn(delayMs: number): void {
    if (this.#timer && this.#delayMs <= delayMs) return;
    this.#timer?.cancel();
    this.#delayMs = delayMs;
    this.#timer = this.#clock.after(delayMs, () => this.#poll());
  }

  #poll(): void {
    this.#timer = undefined;
    const count = this.#library.epoll_wait(this.#epoll, this.#events, BATCH, 0);
    for (const { events, data } of unpackEvents(this.#events, count)) {
      const ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0;
      this.#waiting.get(Number(data))?.(ended);
    }
    if (this.#waiting.size === 0) return;
    this.#pollIn(count > 0 ? SHORTEST_MS : Math.min(this.#delayMs * 2, LONGEST_MS));
  }
}

let arrivals: ArrivalWatch | undefined;

/** Ends a watch; `fd`: the descriptor as it is then, or -1. */
export type Unwatch = (fd: number) => void;

/** Reports every arrival from now on, and bytes that are there already; undefined: it cannot. */
export function watchArrivals(fd: number, arrived: Arrival): Unwatch | undefined {
  const functions = cLibrary();
  if (!functions) return undefined;
  const all = arrivals ?? ArrivalWatch.open(functions, systemClock);
  const id = all?.add(fd, arrived);
  if (!all || id === undefined) return undefined;
  arrivals = all;
  return (now) => all.remove(id, now);
}
