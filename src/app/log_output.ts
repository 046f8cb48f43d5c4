/**
 * Where log lines go: whole lines to standard error, joined for a moment so that thousands of
 * connection ends a second do not cost a system call each.
 *
 * @module
 */

import { writeSync } from "node:fs";
import {
  type Clock,
  createLog,
  formatJson,
  formatText,
  type LevelHolder,
  type Log,
  type LogRecord,
} from "../base/mod.ts";

export interface LogOutputOptions {
  readonly clock: Clock;
  readonly json: boolean;
  readonly holder: LevelHolder;
  /** For tests; default standard error. */
  readonly write?: (text: string) => void;
}

export interface LogOutput {
  readonly log: Log;
  /** Writes what is still waiting; before the process ends. */
  flush(): void;
}

const FLUSH_MS = 20;
/** A write of at most this many characters reaches a pipe in one piece (PIPE_BUF). */
const PIECE_CHARS = 3_500;

export function createLogOutput(options: LogOutputOptions): LogOutput {
  const { clock, json, holder, write = writeStderr } = options;
  const format = json ? formatJson : formatText;
  let waiting = "";
  let timed = false;
  const flush = () => {
    const text = waiting;
    waiting = "";
    if (text) write(text);
  };
  const emit = (record: LogRecord) => {
    const line = `${format(record)}\n`;
    if (waiting.length + line.length > PIECE_CHARS) flush();
    waiting += line;
    // Trouble is seen at once, even if it kills us.
    if (record.level === "warn" || record.level === "error") return flush();
    if (timed) return;
    timed = true;
    clock.after(FLUSH_MS, () => {
      timed = false;
      flush();
    });
  };
  return { log: createLog({ clock, holder, write: emit }), flush };
}

function writeStderr(text: string): void {
  try {
    writeSync(2, text);
  } catch {
    // A full pipe or a closed terminal must not stop the traffic; the line is lost.
  }
}
