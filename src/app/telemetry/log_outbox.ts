/** Log lines and access log records of one thread, on their way to a collector. @module */

import { type Clock, type LogFields, type LogRecord, maskUserinfo } from "../../base/mod.ts";
import type { AccessRecord } from "../../proxy/mod.ts";
import type { TelemetryPart } from "../../snapshot/mod.ts";
import type { OtlpAttributes } from "./otlp.ts";
import { otlpJsonLog, type TelemetryLog, writeOtlpLog } from "./otlp_logs.ts";
import { Outbox, type SendTelemetry } from "./outbox.ts";

const TEXT_LIMIT = 2_048;
/** Lines that wait until the first configuration says whether there is a collector. */
const EARLY_LINES = 100;
const CODEC = {
  write: writeOtlpLog,
  json: otlpJsonLog,
  // The configuration has no such collector for logs.
  zipkin: () => "",
};

export class LogOutbox {
  readonly #outbox: Outbox<TelemetryLog>;
  /** `undefined`: not known yet. */
  #part: TelemetryPart | null | undefined;
  #early: LogRecord[] = [];

  constructor(clock: Pick<Clock, "after">, send: SendTelemetry) {
    this.#outbox = new Outbox({ signal: "logs", codec: CODEC }, clock, send);
  }

  /** `part`: the records that go to the collector from now on; `null`: none. */
  set(part: TelemetryPart | null): void {
    this.#part = part;
    const early = this.#early;
    this.#early = [];
    for (const record of early) this.takeLine(record);
  }

  readonly takeLine = (record: LogRecord): void => {
    if (this.#part === undefined && this.#early.length < EARLY_LINES) this.#early.push(record);
    if (!this.#part?.logs) return;
    const { timeMs, level, message, fields } = record;
    this.#take({
      timeMs,
      level,
      body: shown(message),
      attributes: attributesOf(fields),
      traceId: "",
      spanId: "",
      eventName: "",
    });
  };

  readonly takeAccess = (record: AccessRecord): void => {
    this.#take({ ...record, eventName: "postern.access" });
  };

  flush(): void {
    this.#outbox.flush();
  }

  #take(log: TelemetryLog): void {
    const logs = this.#part?.logs;
    if (!logs) return;
    const { collector: { format }, service } = logs;
    this.#outbox.take(log, { format, service });
  }
}

/** The same values as in the log's own lines. */
function attributesOf(fields: LogFields): OtlpAttributes {
  const attributes: (string | number | boolean)[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    attributes.push(name, valueOf(value));
  }
  return attributes;
}

function valueOf(value: unknown): string | number | boolean {
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "string") return shown(value);
  if (value instanceof Error) return shown(value.message);
  try {
    return shown(typeof value === "bigint" ? String(value) : JSON.stringify(value) ?? "");
  } catch {
    // A field that JSON cannot hold must not cost the line.
    return "[unprintable]";
  }
}

function shown(text: string): string {
  return maskUserinfo(text.slice(0, TEXT_LIMIT));
}
