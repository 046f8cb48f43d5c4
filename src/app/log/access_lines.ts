/**
 * Joins lines of the access log and puts them into the ring of the thread that serves, so that a line costs
 * little more than its text. Nothing here waits; the ring counts lines that find no room.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { TakeLine } from "../../proxy/mod.ts";
import type { LogRing } from "./log_rings.ts";

/** Bytes that wait for a stalled writer: 1,500 lines of 700 bytes, 0.1 s at 15,000 lines/s. */
export const ACCESS_RING_BYTES = 1 << 20;
/** Lines are joined for this time, or up to this many characters. */
const JOIN_MS = 20;
const JOIN_CHARS = 16 * 1024;

export interface AccessLines {
  readonly take: TakeLine;
  /** Puts the joined lines into the ring now. */
  flush(): void;
}

export function createAccessLines({ clock, ring, wake }: {
  readonly clock: Clock;
  readonly ring: LogRing;
  /** Wakes the writer of the rings. */
  readonly wake: () => void;
}): AccessLines {
  const encoder = new TextEncoder();
  let joined = "";
  let lines = 0;
  let timed = false;
  const flush = () => {
    if (lines === 0) return;
    ring.put(encoder.encode(joined), lines);
    joined = "";
    lines = 0;
    wake();
  };
  return {
    flush,
    take(line) {
      joined += line;
      lines++;
      if (joined.length >= JOIN_CHARS) return flush();
      if (timed) return;
      timed = true;
      clock.after(JOIN_MS, () => {
        timed = false;
        flush();
      });
    },
  };
}
