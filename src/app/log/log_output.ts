/** Log lines into rings, and from there to standard error. Traffic never waits for it. @module */

import { fstatSync } from "node:fs";
import process from "node:process";
import {
  type Clock,
  createLog,
  formatJson,
  formatText,
  type LevelHolder,
  type Log,
  type LogLevel,
  type LogRecord,
  messageOf,
  printable,
  ProxyError,
  type Timer,
} from "../../base/mod.ts";
import { openStandardStream, PIPE_BYTES, STDERR, type WriteNow } from "../../net/mod.ts";
import { type LogRing, LogRings } from "./log_rings.ts";

interface LogOutputOptions {
  readonly clock: Clock;
  readonly json: boolean;
  readonly holder: LevelHolder;
  readonly ring: LogRing;
  readonly wake: () => void;
  /** Takes every line besides. */
  readonly also?: (record: LogRecord) => void;
}

/** Lines are joined for this time, so that not each of thousands a second wakes the writer. */
const JOIN_MS = 20;
/** Time that a process waits at its end for the last lines to be read. */
const LAST_LINES_MS = 1_000;
/** Interval of tries while the reader is behind. */
const RETRY_MS = 50;

/** Priorities of syslog, which the journal reads at the beginning of a line. */
const PRIORITIES: Readonly<Record<LogLevel, number>> = {
  trace: 7,
  debug: 7,
  info: 6,
  warn: 4,
  error: 3,
};

function lineFormat(json: boolean): (record: LogRecord) => string {
  const format = json ? formatJson : formatText;
  if (!isJournal(process.env)) return format;
  return (record) => `<${PRIORITIES[record.level]}>${format(record)}`;
}

/** Whether standard error is the journal that systemd gave this process, not a terminal or a pipe of another. */
export function isJournal(
  { JOURNAL_STREAM: named }: Readonly<Record<string, string | undefined>>,
  fd: number = STDERR,
): boolean {
  if (named === undefined) return false;
  try {
    const { dev, ino } = fstatSync(fd);
    return named === `${dev}:${ino}`;
  } catch {
    // It is closed.
    return false;
  }
}

export function createLogOutput(options: LogOutputOptions): Log {
  const { clock, json, holder, ring, wake, also } = options;
  const format = lineFormat(json);
  const encoder = new TextEncoder();
  let timed = false;
  const emit = (record: LogRecord) => {
    ring.put(encoder.encode(`${format(record)}\n`));
    also?.(record);
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
  say(line: string): void;
}

interface LogWriterOptions {
  readonly clock: Clock;
  readonly json: boolean;
  /** Threads that log besides this one. */
  readonly workers: number;
  /** Default: standard error. */
  readonly write?: WriteNow;
}

/** At the end of the process, for any reason, the writer waits a moment for pending lines. */
export function createLogWriter(options: LogWriterOptions): LogWriter {
  const { clock, json, workers, write = openStandardStream(STDERR) } = options;
  const rings = LogRings.create(workers + 1);
  const format = lineFormat(json);
  const lastPrefix = isJournal(process.env) ? `<${PRIORITIES.error}>` : "";
  const drain = new LogDrain({
    rings,
    format,
    now: () => clock.now(),
    write,
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
  const say = (line: string) => rings.own.put(new TextEncoder().encode(`${lastPrefix}${line}\n`));
  return { rings, drain: run, say };
}

interface LogDrainOptions {
  readonly rings: LogRings;
  readonly format: (record: LogRecord) => string;
  readonly now: () => number;
  readonly write: WriteNow;
}

/** A loss is reported after the lines that waited; while lines keep coming, at this interval. */
const REPORT_MS = 1_000;
const NOTHING = new Uint8Array();

/** `later`: the bytes before have not been taken yet. */
type Outcome = "written" | "later" | "lost";

export class LogDrain {
  readonly #options: LogDrainOptions;
  readonly #piece = new Uint8Array(PIPE_BYTES);
  /** The part of the last piece that was not taken yet. */
  #rest: Uint8Array = NOTHING;
  #reported = 0;
  #noticedMs: number | undefined;
  #failure = "";

  constructor(options: LogDrainOptions) {
    this.#options = options;
  }

  /** Writes the waiting lines. False: the reader is behind, and this must be called again. */
  run(): boolean {
    const { rings } = this.#options;
    while (!rings.isEmpty) {
      for (const ring of rings.each) if (!this.#writePiece(ring)) return false;
      if (!this.#reportLoss()) return false;
    }
    return this.#writeRest();
  }

  #writePiece(ring: LogRing): boolean {
    const piece = ring.peekLines(this.#piece);
    if (piece.length === 0) return true;
    const outcome = this.#write(piece);
    if (outcome === "later") return false;
    if (outcome === "lost") ring.losePiece(piece);
    ring.drop(piece.length);
    return true;
  }

  #reportLoss(): boolean {
    const { rings, format, now } = this.#options;
    const { lost } = rings;
    const timeMs = now();
    if (lost === this.#reported) return true;
    this.#noticedMs ??= timeMs;
    if (!rings.isEmpty && timeMs - this.#noticedMs < REPORT_MS) return true;
    const record: LogRecord = {
      timeMs,
      level: "warn",
      message: "log lines lost",
      fields: {
        lines: lost - this.#reported,
        reason: this.#failure || "standard error was not read in time",
      },
    };
    const outcome = this.#write(new TextEncoder().encode(`${format(record)}\n`));
    if (outcome === "written") {
      this.#reported = lost;
      this.#noticedMs = undefined;
      this.#failure = "";
    }
    return outcome !== "later";
  }

  #write(bytes: Uint8Array): Outcome {
    return this.#writeRest() ? this.#push(bytes) : "later";
  }

  #writeRest(): boolean {
    const rest = this.#rest;
    this.#rest = NOTHING;
    if (rest.length > 0) this.#push(rest);
    return this.#rest.length === 0;
  }

  /** Bytes that are not taken now count as written: {@link #rest} keeps them. */
  #push(bytes: Uint8Array): "written" | "lost" {
    let done = 0;
    try {
      while (done < bytes.length) done += this.#options.write(bytes.subarray(done));
      return "written";
    } catch (error) {
      const code = (error as { readonly code?: unknown }).code;
      if (code !== "EAGAIN") {
        this.#failure = String(code ?? error);
        return "lost";
      }
      this.#rest = bytes.slice(done);
      return "written";
    }
  }
}

const USAGE_CODES = new Set(["usage", "config_invalid", "unsupported"]);

/** True when `-log-json` is among the words, also when other words are wrong. */
export function wantsJson(argv: readonly string[]): boolean {
  const last = argv.findLast((word) => /^--?log-json(=|$)/.test(word)) ?? "=false";
  return !/=(?:0|f|false)$/i.test(last);
}

/** The message for standard error: a log line in JSON, or text. */
export function lastWords(
  error: unknown,
  options: { readonly json: boolean; readonly nowMs: number },
): string {
  const message = messageOf(error);
  if (!options.json) return `postern: ${printable(message)}`;
  const fields = error instanceof ProxyError ? { code: error.code } : {};
  return formatJson({ timeMs: options.nowMs, level: "error", message, fields });
}

/** 2: usage or configuration, nothing was started; 1: everything else. */
export function exitCodeOf(error: unknown): number {
  return error instanceof ProxyError && USAGE_CODES.has(error.code) ? 2 : 1;
}
