/**
 * Puts log lines into this thread's ring; the main thread writes them to standard error, as far as that takes
 * them at once. Logging never delays traffic.
 *
 * @module
 */

import process from "node:process";
import {
  type Clock,
  createLog,
  formatJson,
  formatText,
  type LevelHolder,
  type Log,
  type LogRecord,
  type Timer,
} from "../../base/mod.ts";
import { openStandardStream, STDERR } from "../../net/mod.ts";
import { LogDrain } from "./log_drain.ts";
import { type LogRing, LogRings } from "./log_rings.ts";

interface LogOutputOptions {
  readonly clock: Clock;
  readonly json: boolean;
  readonly holder: LevelHolder;
  /** This thread's ring. */
  readonly ring: LogRing;
  /** Wakes the writer of the rings. */
  readonly wake: () => void;
}

/** Lines are joined for this time, so that not each of thousands a second wakes the writer. */
const JOIN_MS = 20;
/** Time that a process waits at its end for the last lines to be read. */
const LAST_LINES_MS = 1_000;
/** Interval of tries while the reader is behind. */
const RETRY_MS = 50;

export function createLogOutput(options: LogOutputOptions): Log {
  const { clock, json, holder, ring, wake } = options;
  const format = json ? formatJson : formatText;
  const encoder = new TextEncoder();
  let timed = false;
  const emit = (record: LogRecord) => {
    ring.put(encoder.encode(`${format(record)}\n`));
    // Warnings and errors are written at once.
    if (record.level === "warn" || record.level === "error") return wake();
    if (timed) return;
    timed = true;
    clock.after(JOIN_MS, () => {
      timed = false;
      wake();
    });
  };
  return createLog({ clock, holder, write: emit });
}

interface LogWriter {
  readonly rings: LogRings;
  /** Writes the lines in the rings. Never waits. */
  drain(): void;
  /** Writes a line that is formatted already. */
  say(line: string): void;
}

interface LogWriterOptions {
  readonly clock: Clock;
  readonly json: boolean;
  /** Threads that log besides this one. */
  readonly workers: number;
}

/** At the end of the process, for any reason, the writer waits a moment for pending lines. */
export function createLogWriter({ clock, json, workers }: LogWriterOptions): LogWriter {
  const rings = LogRings.create(workers + 1);
  const drain = new LogDrain({
    rings,
    format: json ? formatJson : formatText,
    now: () => clock.now(),
    write: openStandardStream(STDERR),
  });
  let late: Timer | undefined;
  const run = () => {
    // A flood of lines does not shorten the interval of tries.
    if (late) return;
    rings.answer();
    if (drain.run()) return;
    late = clock.after(RETRY_MS, () => {
      late = undefined;
      run();
    });
  };
  process.once("exit", () => {
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    const endMs = clock.monotonic() + LAST_LINES_MS;
    while (!drain.run() && clock.monotonic() < endMs) Atomics.wait(sleeper, 0, 0, RETRY_MS);
  });
  return {
    rings,
    drain: run,
    say: (line) => rings.own.put(new TextEncoder().encode(`${line}\n`)),
  };
}
