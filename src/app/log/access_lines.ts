/**
 * Lines of the access log on their way out of the thread that serves: joined, and put into this thread's
 * ring as a whole, so that a line costs its text and little more. Nothing here waits; what finds no room
 * is counted in the ring.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { TakeLine } from "../../proxy/mod.ts";
import type { LogRing } from "./log_rings.ts";

/** What a thread that stalls may have waiting: a tenth of a second of 15,000 lines a second. */
export const ACCESS_RING_BYTES = 1 << 20;
/** Lines are joined for so long, or until there are so many characters. */
const JOIN_MS = 20;
const JOIN_CHARS = 16 * 1024;

export interface AccessLines {
  readonly take: TakeLine;
  /** Puts what is joined into the ring now. */
  flush(): void;
}

export function createAccessLines({ clock, ring, wake }: {
  readonly clock: Clock;
  readonly ring: LogRing;
  /** Calls whoever writes what is in the rings. */
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
