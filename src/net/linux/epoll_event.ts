/**
 * `struct epoll_event`: the events to watch for, and 64 bits that the watcher gets back with each event.
 *
 * @module
 */

import process from "node:process";

/** The structure is packed on x86-64 and only there. */
const DATA_AT = process.arch === "x64" ? 4 : 8;
export const EVENT_BYTES = DATA_AT + 8;

export interface EpollEvent {
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
