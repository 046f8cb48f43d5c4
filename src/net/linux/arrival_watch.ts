/**
 * Looks at what a client has sent without taking it, and tells when more comes. The runtime reads a
 * socket as soon as it watches it, and what was read cannot be given to a TLS handshake any more; so the waiting
 * is done by an epoll descriptor of our own, one for all clients, looked at in turns while anybody
 * waits. Only on Linux, where the C library can be called.
 *
 * @module
 */

import { type Clock, systemClock, type Timer } from "../../base/mod.ts";
import { CLIENT_HELLO_LIMIT_BYTES } from "../../wire/mod.ts";
import { type CLibrary, cLibrary } from "./c_library.ts";
import { EVENT_BYTES, packEvent, unpackEvents } from "./epoll_event.ts";

const MSG_PEEK = 0x02;
const MSG_DONTWAIT = 0x40;
const EPOLL_CLOEXEC = 0x80000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 0x1;
const EPOLLERR = 0x8;
const EPOLLHUP = 0x10;
const EPOLLRDHUP = 0x2000;
/** Each arrival is told once, so that half a message does not keep the thread busy. */
const EPOLLET = 0x80000000;

/** Events of one look. More wait for the next one. */
const BATCH = 256;
/** The first message mostly comes right after the connection; silence is looked at ever less often. */
const SHORTEST_MS = 1;
const LONGEST_MS = 20;

/** `peerEnded`: it ended its half or broke the connection, whatever it sent before. */
export type Arrival = (peerEnded: boolean) => void;

const buffer = new Uint8Array(CLIENT_HELLO_LIMIT_BYTES);
/**
 * What has arrived and was not read, {@link CLIENT_HELLO_LIMIT_BYTES} at most; good until the next call.
 * Empty: the peer ended its half. Undefined: nothing yet, or the connection broke.
 */
export function peek(fd: number): Uint8Array | undefined {
  const size = cLibrary()?.recv(fd, buffer, buffer.length, MSG_PEEK | MSG_DONTWAIT) ?? -1;
  return size < 0 ? undefined : buffer.subarray(0, size);
}

/** Takes what {@link peek} would show: a socket closed with unread bytes breaks its connection. */
export function discard(fd: number): void {
  cLibrary()?.recv(fd, buffer, buffer.length, MSG_DONTWAIT);
}

/** Everybody that waits on this thread; over, with its descriptor, when nobody does any more. */
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

  /** Undefined when no descriptor is left. */
  static open(library: CLibrary, clock: Clock): ArrivalWatch | undefined {
    const epoll = library.epoll_create1(EPOLL_CLOEXEC);
    return epoll < 0 ? undefined : new ArrivalWatch(library, epoll, clock);
  }

  /** An id for {@link remove}; undefined when the kernel would not watch it. */
  add(fd: number, arrived: Arrival): number | undefined {
    // Not the descriptor: a closed one's number is soon another connection's.
    const id = this.#lastId = this.#lastId % 0xffff_ffff + 1;
    const event = packEvent({ events: EPOLLIN | EPOLLRDHUP | EPOLLET, data: BigInt(id) });
    if (this.#library.epoll_ctl(this.#epoll, EPOLL_CTL_ADD, fd, event) !== 0) {
      this.#closeIfIdle();
      return undefined;
    }
    this.#waiting.set(id, arrived);
    this.#lookIn(SHORTEST_MS);
    return id;
  }

  /** `fd` is -1 when it was closed: the kernel has forgotten it then. */
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

  #lookIn(delayMs: number): void {
    if (this.#timer && this.#delayMs <= delayMs) return;
    this.#timer?.cancel();
    this.#delayMs = delayMs;
    this.#timer = this.#clock.after(delayMs, () => this.#look());
  }

  #look(): void {
    this.#timer = undefined;
    const count = this.#library.epoll_wait(this.#epoll, this.#events, BATCH, 0);
    for (const { events, data } of unpackEvents(this.#events, count)) {
      const ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0;
      this.#waiting.get(Number(data))?.(ended);
    }
    if (this.#waiting.size === 0) return;
    this.#lookIn(count > 0 ? SHORTEST_MS : Math.min(this.#delayMs * 2, LONGEST_MS));
  }
}

let arrivals: ArrivalWatch | undefined;

/** Stops telling; the descriptor as it is then, or -1. */
export type Unwatch = (fd: number) => void;

/** Tells of everything that arrives from now on, what is there already included; undefined: cannot. */
export function watchArrivals(fd: number, arrived: Arrival): Unwatch | undefined {
  const functions = cLibrary();
  if (!functions) return undefined;
  const all = arrivals ?? ArrivalWatch.open(functions, systemClock);
  const id = all?.add(fd, arrived);
  if (!all || id === undefined) return undefined;
  arrivals = all;
  return (now) => all.remove(id, now);
}
