/**
 * Where log lines go: into this thread's ring, and from there to standard error by a thread that may
 * wait for whoever reads it. A line is never worth a packet.
 *
 * @module
 */

import { writeSync } from "node:fs";
import process from "node:process";
import {
  type Clock,
  createLog,
  formatJson,
  formatText,
  type LevelHolder,
  type Log,
  type LogRecord,
} from "../base/mod.ts";
import { LogDrain } from "./log_drain.ts";
import { LogRings, OWNERS } from "./log_rings.ts";
import type { LogThreadStart } from "./log_thread.ts";

export interface LogOutputOptions {
  readonly clock: Clock;
  readonly json: boolean;
  readonly holder: LevelHolder;
  readonly rings: LogRings;
  /** Which ring is this thread's: a worker's number, or the last one for the main thread. */
  readonly thread: number;
}

/** Lines are joined for so long, so that thousands a second do not wake the writer each. */
const JOIN_MS = 20;
/** How long a process that ends waits for its last lines to be read. */
const LAST_LINES_MS = 1_000;
/** A writer that died is started again after this. */
const RESTART_MS = 1_000;

export function createLogOutput(options: LogOutputOptions): Log {
  const { clock, json, holder, rings, thread } = options;
  const ring = rings.each[thread];
  const format = json ? formatJson : formatText;
  const encoder = new TextEncoder();
  let timed = false;
  const emit = (record: LogRecord) => {
    ring?.put(encoder.encode(`${format(record)}\n`));
    // Trouble is seen at once.
    if (record.level === "warn" || record.level === "error") return rings.ring();
    if (timed) return;
    timed = true;
    clock.after(JOIN_MS, () => {
      timed = false;
      rings.ring();
    });
  };
  return createLog({ clock, holder, write: emit });
}

export interface LogWriter {
  readonly rings: LogRings;
  /** Writes a line that is formatted already. */
  say(line: string): void;
}

export interface LogWriterOptions {
  readonly clock: Clock;
  readonly json: boolean;
  /** Threads that log besides the main thread. */
  readonly workers: number;
}

/** Starts it for as long as the process lives; at its end, however it comes, waits a moment for it. */
export function startLogWriter({ clock, json, workers }: LogWriterOptions): LogWriter {
  const rings = LogRings.create(workers + 1);
  const start = () => {
    const thread = createThread();
    thread.onerror = (event) => {
      event.preventDefault();
      thread.terminate();
      rings.release();
      clock.after(RESTART_MS, start);
    };
    thread.postMessage({ memory: rings.memory, json } satisfies LogThreadStart);
  };
  start();
  process.once("exit", () => {
    // A process that ends before the thread has come up writes by itself.
    if (rings.take(OWNERS.main)) return writeHere(rings, json, clock);
    rings.ring();
    rings.waitUntilEmpty(LAST_LINES_MS, () => clock.monotonic());
  });
  return {
    rings,
    say: (line) => rings.each[workers]?.put(new TextEncoder().encode(`${line}\n`)),
  };
}

function createThread(): Worker {
  const options = { type: "module", smol: true } as WorkerOptions;
  return new Worker(new URL("./log_thread.ts", import.meta.url), options);
}

function writeHere(rings: LogRings, json: boolean, clock: Clock): void {
  new LogDrain({
    rings,
    format: json ? formatJson : formatText,
    now: () => clock.now(),
    write: (bytes) => writeSync(2, bytes),
    waitForReader: () => false,
  }).run();
}
