/**
 * Stops and starts the kernel's reports of one socket to the runtime's epoll descriptor, without the
 * runtime's knowledge. A listener that is not reported keeps its clients waiting in its backlog; a
 * listener that cannot accept and is reported makes the runtime spin.
 *
 * @module
 */

import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { cLibrary } from "./c_library.ts";

/** The structure is packed on x86-64 and only there. */
const DATA_AT = process.arch === "x64" ? 4 : 8;
export const EVENT_BYTES = DATA_AT + 8;

interface EpollEvent {
  readonly events: number;
  readonly data: bigint;
}

export function packEvent({ events, data }: EpollEvent): Uint8Array {
  const view = new DataView(new ArrayBuffer(EVENT_BYTES));
  view.setUint32(0, events, true);
  view.setBigUint64(DATA_AT, data, true);
  return new Uint8Array(view.buffer);
}

/** The first `count` events that the kernel has put into `bytes`. */
export function unpackEvents(bytes: Uint8Array, count: number): EpollEvent[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return Array.from({ length: Math.max(count, 0) }, (_, index) => ({
    events: view.getUint32(index * EVENT_BYTES, true),
    data: view.getBigUint64(index * EVENT_BYTES + DATA_AT, true),
  }));
}

/** The epoll descriptor that watches `fd`, with the runtime's own events and data, kept unchanged. */
export interface Watch extends EpollEvent {
  readonly epoll: number;
  readonly fd: number;
}

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_MOD = 3;
const F_DUPFD_CLOEXEC = 1030;
const O_CLOEXEC = 0x80000;
const FD_INFO = "/proc/self/fdinfo";

/** Numbers of parked sockets of this thread: an epoll descriptor is there for now. */
const parkedNumbers = new Set<number>();

/** The runtime's watch of `fd`; undefined: it cannot be found. */
export function findWatch(fd: number): Watch | undefined {
  if (!cLibrary()) return undefined;
  let names: number[];
  try {
    names = readdirSync(FD_INFO).map(Number).filter((name) => !parkedNumbers.has(name));
  } catch {
    // No /proc, or no descriptor is left to read it with.
    return undefined;
  }
  // A runtime opens its epoll descriptors first; thousands of sockets may have come since.
  for (const epoll of names.toSorted((one, other) => one - other)) {
    const watch = watchIn(epoll, fd);
    if (watch) return watch;
  }
  return undefined;
}

/** From a line like `tfd: 5 events: 19 data: 34321df5140 ...`, all but the first in hex. */
function watchIn(epoll: number, fd: number): Watch | undefined {
  let text: string;
  try {
    text = readFileSync(`${FD_INFO}/${epoll}`, "utf8");
  } catch {
    // Closed since the directory was read.
    return undefined;
  }
  const line = new RegExp(`^tfd:\\s*${fd}\\s+events:\\s*(\\w+)\\s+data:\\s*(\\w+)`, "m").exec(text);
  if (!line) return undefined;
  return { epoll, fd, events: Number(`0x${line[1]}`), data: BigInt(`0x${line[2]}`) };
}

/** Stops (`on` false) or starts reports; false: the kernel refused. */
export function report(watch: Watch, on: boolean): boolean {
  const event = packEvent(on ? watch : { ...watch, events: 0 });
  return cLibrary()?.epoll_ctl(watch.epoll, EPOLL_CTL_MOD, watch.fd, event) === 0;
}

/**
 * Moves a listening socket to another descriptor and puts one under its number that cannot accept: a
 * runtime accepts all waiting clients before it does anything else, unless an accept fails. Returns the
 * socket's descriptor; undefined: it was not moved.
 */
export function park({ fd, epoll }: Watch): number | undefined {
  const library = cLibrary();
  if (!library) return undefined;
  const parked = library.fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (parked < 0) return undefined;
  if (library.dup3(epoll, fd, O_CLOEXEC) === fd) {
    parkedNumbers.add(fd);
    return parked;
  }
  library.close(parked);
  return undefined;
}

/** Moves the socket back under its number, which is watched as before. */
export function unpark({ fd }: Watch, parked: number): void {
  parkedNumbers.delete(fd);
  cLibrary()?.dup3(parked, fd, O_CLOEXEC);
  cLibrary()?.close(parked);
}

/**
 * Puts another socket under the number of one that the runtime watches, for servers that the runtime cannot
 * open on a descriptor. Takes `other`; false: nothing has changed, and `other` is closed.
 */
export function replaceSocket(fd: number, other: number): boolean {
  const library = cLibrary();
  const watch = findWatch(fd);
  const isReplaced = library !== undefined && watch !== undefined &&
    library.dup3(other, fd, O_CLOEXEC) === fd &&
    // The kernel has forgotten the socket that was there.
    library.epoll_ctl(watch.epoll, EPOLL_CTL_ADD, fd, packEvent(watch)) === 0;
  library?.close(other);
  return isReplaced;
}
