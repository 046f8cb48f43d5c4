/**
 * Entry point of the thread that writes the log. A reader that stalls stops this thread and no other.
 *
 * @module
 */

import { writeSync } from "node:fs";
import { formatJson, formatText, systemClock } from "../base/mod.ts";
import { LogDrain } from "./log_drain.ts";
import { LogRings, OWNERS } from "./log_rings.ts";

export interface LogThreadStart {
  readonly memory: SharedArrayBuffer;
  readonly json: boolean;
}

/** Between two attempts at a pipe that somebody has made non-blocking. */
const RETRY_MS = 20;

const scope = globalThis as unknown as {
  onmessage: ((event: { readonly data: LogThreadStart }) => void) | null;
};

scope.onmessage = ({ data: { memory, json } }) => {
  const rings = new LogRings(memory);
  if (!rings.take(OWNERS.writer)) return;
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  const drain = new LogDrain({
    rings,
    format: json ? formatJson : formatText,
    now: () => systemClock.now(),
    write: (bytes) => writeSync(2, bytes),
    waitForReader() {
      Atomics.wait(sleeper, 0, 0, RETRY_MS);
      return true;
    },
  });
  for (;;) {
    const calls = rings.calls;
    drain.run();
    rings.endRound();
    rings.waitForCall(calls);
  }
};
