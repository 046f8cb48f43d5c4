/**
 * Tells the kernel to stop and start reporting one socket to whoever waits for it, behind the runtime's
 * back. A listener that is not reported keeps its clients waiting in its backlog; a listener that cannot
 * accept and is reported makes the runtime spin.
 *
 * @module
 */

import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { openCLibrary } from "./c_library.ts";

interface CLibrary {
  epoll_ctl(epoll: number, operation: number, fd: number, event: Uint8Array): number;
}

/** Where a descriptor is watched, and as what. */
export interface Watch {
  readonly epoll: number;
  readonly fd: number;
  readonly events: number;
  /** What the waiter gets back with an event: its own, not to be changed. */
  readonly data: bigint;
}

const EPOLL_CTL_MOD = 3;
const FD_INFO = "/proc/self/fdinfo";
/** A line of an epoll descriptor: `tfd: 5 events: 19 data: 34321df5140 ...`, all but the first in hex. */
const WATCHED = /^tfd:\s*(\d+)\s+events:\s*([0-9a-f]+)\s+data:\s*([0-9a-f]+)/gm;

let library: CLibrary | null | undefined;

/** The one place where `fd` is watched; undefined where that cannot be told, or it is not one place. */
export function findWatch(fd: number): Watch | undefined {
  library ??= openCLibrary<CLibrary>({
    epoll_ctl: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" },
  }) ?? null;
  if (!library) return undefined;
  const found: Watch[] = [];
  try {
    for (const name of readdirSync(FD_INFO)) {
      for (const watch of watchesIn(Number(name))) if (watch.fd === fd) found.push(watch);
    }
  } catch {
    // No /proc, or no descriptor left to read it with.
    return undefined;
  }
  return found.length === 1 ? found[0] : undefined;
}

function watchesIn(epoll: number): Watch[] {
  let text: string;
  try {
    text = readFileSync(`${FD_INFO}/${epoll}`, "utf8");
  } catch {
    // Closed since the directory was read.
    return [];
  }
  return [...text.matchAll(WATCHED)].map(([, fd, events, data]) => ({
    epoll,
    fd: Number(fd),
    events: Number(`0x${events}`),
    data: BigInt(`0x${data}`),
  }));
}

/** Stops (`on` false) or starts reporting; false when the kernel would not. */
export function report(watch: Watch, on: boolean): boolean {
  if (!library) return false;
  // The structure is packed on x86-64 and only there.
  const packed = process.arch === "x64";
  const event = new DataView(new ArrayBuffer(packed ? 12 : 16));
  event.setUint32(0, on ? watch.events : 0, true);
  event.setBigUint64(packed ? 4 : 8, watch.data, true);
  const bytes = new Uint8Array(event.buffer);
  return library.epoll_ctl(watch.epoll, EPOLL_CTL_MOD, watch.fd, bytes) === 0;
}
