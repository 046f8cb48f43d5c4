/**
 * Log lines: a constant message and fields. Text for people, JSON for collectors. Keys, tokens and
 * payload are never passed in; this module does not look for them.
 *
 * @module
 */

import type { Clock } from "./clock.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Values are written as JSON writes them; `undefined` ones are left out. */
export type Fields = Readonly<Record<string, unknown>>;

export interface Log {
  trace(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** Whether a line of this level would be written: ask before building costly fields. */
  enabled(level: LogLevel): boolean;
  /** A log that adds `fields` to every line and shares this one's level. */
  with(fields: Fields): Log;
}

/** One finished line, before formatting: what a worker hands to the main thread. */
export interface LogRecord {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Fields;
}

/** The level shared by a log and all logs made from it; changed at run time by the admin server. */
export interface LevelHolder {
  level: LogLevel;
}

export interface LogOptions {
  readonly clock: Clock;
  readonly write: (record: LogRecord) => void;
  readonly holder: LevelHolder;
}

export function createLog(options: LogOptions, base: Fields = {}): Log {
  const { clock, write, holder } = options;
  const emit = (level: LogLevel, message: string, fields?: Fields) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(holder.level)) return;
    write({ timeMs: clock.now(), level, message, fields: fields ? { ...base, ...fields } : base });
  };
  return {
    trace: (message, fields) => emit("trace", message, fields),
    debug: (message, fields) => emit("debug", message, fields),
    info: (message, fields) => emit("info", message, fields),
    warn: (message, fields) => emit("warn", message, fields),
    error: (message, fields) => emit("error", message, fields),
    enabled: (level) => LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(holder.level),
    with: (fields) => createLog(options, { ...base, ...fields }),
  };
}

/** A log that writes nothing. */
export const silentLog: Log = {
  trace: () => {},
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  enabled: () => false,
  with: () => silentLog,
};

/** `2026-11-21T07:30:00.000Z [INFO]  message key=value`, one line whatever the values hold. */
export function formatText(record: LogRecord): string {
  let line = `${new Date(record.timeMs).toISOString()} ${
    `[${record.level.toUpperCase()}]`.padEnd(7)
  } `;
  line += oneLine(record.message);
  for (const [key, value] of Object.entries(record.fields)) {
    if (value === undefined) continue;
    line += ` ${key}=${textValue(value)}`;
  }
  return line;
}

/** One JSON object per line: `time`, `level`, `message`, then the fields. */
export function formatJson(record: LogRecord): string {
  return JSON.stringify({
    time: new Date(record.timeMs).toISOString(),
    level: record.level,
    message: record.message,
    ...record.fields,
  });
}

function textValue(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? String(value);
  // deno-lint-ignore no-control-regex -- a control character in a value must not forge a line
  return /^[^\s"=\x00-\x1f\x7f]+$/.test(text) ? text : JSON.stringify(text);
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- same reason
  return text.replace(/[\x00-\x1f\x7f]/g, " ");
}
