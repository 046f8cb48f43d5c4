/** Log lines, and the filter of text for people. Callers never pass keys, tokens, payload. @module */

import type { Clock } from "./clock.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Values are written as JSON; `undefined` ones are left out. */
export type LogFields = Readonly<Record<string, unknown>>;

type WriteLine = (message: string, fields?: LogFields) => void;

export interface Log extends Readonly<Record<LogLevel, WriteLine>> {
  /** Whether a line of this level is written: check before building costly fields. */
  enabled(level: LogLevel): boolean;
  /** A log that adds `fields` to every line and shares this one's level. */
  with(fields: LogFields): Log;
}

/** One finished line before formatting; workers send it to the main thread. */
export interface LogRecord {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
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

export function createLog(options: LogOptions, base: LogFields = {}): Log {
  const { clock, write, holder } = options;
  const isPlain = Object.keys(base).length === 0;
  const emit = (level: LogLevel, message: string, fields?: LogFields) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(holder.level)) return;
    const all = !fields ? base : isPlain ? fields : { ...base, ...fields };
    write({ timeMs: clock.now(), level, message, fields: all });
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
  const { fields } = record;
  let line = `${new Date(record.timeMs).toISOString()} ${TEXT_LEVELS[record.level]} `;
  line += oneLine(record.message);
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (value === undefined) continue;
    line += ` ${key}=${textValue(value)}`;
  }
  return line;
}

const TEXT_LEVELS: Readonly<Record<LogLevel, string>> = {
  trace: "[TRACE]",
  debug: "[DEBUG]",
  info: "[INFO] ",
  warn: "[WARN] ",
  error: "[ERROR]",
};

/** One JSON object per line: `time`, `level`, `message`, then the fields, which cannot replace those. */
export function formatJson(record: LogRecord): string {
  const head = {
    time: new Date(record.timeMs).toISOString(),
    level: record.level,
    message: maskUserinfo(record.message),
  };
  const { fields } = record;
  try {
    return escapeUnseen(JSON.stringify(Object.assign({ ...head }, fields, head), readable));
  } catch {
    // A field that JSON cannot hold must not cost the line: all are written as text then.
    const texts = Object.entries(fields).map(([key, value]) => [key, textOf(value)]);
    return escapeUnseen(JSON.stringify({ ...Object.fromEntries(texts), ...head }));
  }
}

function textValue(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = textOf(value);
  return /^[^\s"=]+$/.test(text) && !hasUnseen(text) ? text : escapeUnseen(JSON.stringify(text));
}

/** Strings, messages of errors and big integers as they are, all else as JSON. Never throws. */
function textOf(value: unknown): string {
  if (typeof value === "string") return maskUserinfo(value);
  try {
    const plain = readable("", value);
    return typeof plain === "string" ? plain : JSON.stringify(plain, readable) ?? String(plain);
  } catch {
    return "[unprintable]";
  }
}

function readable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  const text = value instanceof Error ? value.message : value;
  return typeof text === "string" ? maskUserinfo(text) : text;
}

function oneLine(text: string): string {
  return escapeUnseen(maskUserinfo(text).replace(/[\t\r\n]/g, " "));
}

/** C0 but tab and line feed, DEL and C1, marks and overrides of direction, Unicode's own line ends. */
const UNSEEN =
  // deno-lint-ignore no-control-regex -- these are what must not get through
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const UNSEEN_ONE = new RegExp(UNSEEN.source);
/** The length bounds the search in text that a stranger may have written. */
const USERINFO_OF_URL = /:\/\/\S{0,512}@/g;
/** `user:password@host` alone. */
const USERINFO = /(^|[\s"'=(,])[^\s"'=(,:@/]{1,256}:[^\s"',@]{1,256}@(?=[\w.[])/g;
const NOT_SHOWN = "(not shown)";

/** Whether {@link escapeUnseen} would change it. */
export function hasUnseen(text: string): boolean {
  return UNSEEN_ONE.test(text);
}

/** Escapes invisible and reordering characters as JSON does; `text` may be JSON. */
export function escapeUnseen(text: string): string {
  return text.replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** `text` without user and password before the `@` of an address. */
export function maskUserinfo(text: string): string {
  if (!text.includes("@")) return text;
  return text.replace(USERINFO_OF_URL, `://${NOT_SHOWN}@`).replace(USERINFO, `$1${NOT_SHOWN}@`);
}

/** Both filters, for a terminal. */
export function printable(text: string): string {
  return escapeUnseen(maskUserinfo(text));
}
