/** Log records as opentelemetry-proto has them, in Protocol Buffers or JSON. @module */

import type { LogLevel } from "../../base/mod.ts";
import type { ProtobufWriter } from "../../wire/mod.ts";
import {
  anyValue,
  keyValues,
  nanoseconds,
  type OtlpAttributes,
  writeAttributes,
  writeItem,
  writeValue,
} from "./otlp.ts";

/** A line of the log, or of the access log. */
export interface TelemetryLog {
  readonly timeMs: number;
  readonly level: LogLevel;
  readonly body: string;
  readonly attributes: OtlpAttributes;
  /** `""`: no trace. */
  readonly traceId: string;
  readonly spanId: string;
  /** `""`: a line of the log. */
  readonly eventName: string;
}

/** OpenTelemetry's numbers of severities. */
const SEVERITIES: Readonly<Record<LogLevel, number>> = {
  trace: 1,
  debug: 5,
  info: 9,
  warn: 13,
  error: 17,
};

const LOG = {
  time: 1,
  severity: 2,
  severityText: 3,
  body: 5,
  attributes: 6,
  traceId: 9,
  spanId: 10,
  observed: 11,
  eventName: 12,
} as const;

export function writeOtlpLog(writer: ProtobufWriter, log: TelemetryLog): void {
  const { timeMs, level, body, attributes, traceId, spanId, eventName } = log;
  writeItem(writer, () => {
    const time = nanoseconds(timeMs);
    writer.fixed64(LOG.time, time);
    writer.integer(LOG.severity, SEVERITIES[level]);
    writer.text(LOG.severityText, level.toUpperCase());
    writer.within(LOG.body, () => writeValue(writer, body));
    writeAttributes(writer, LOG.attributes, attributes);
    if (traceId !== "") writer.hex(LOG.traceId, traceId);
    if (spanId !== "") writer.hex(LOG.spanId, spanId);
    writer.fixed64(LOG.observed, time);
    if (eventName !== "") writer.text(LOG.eventName, eventName);
  });
}

export function otlpJsonLog(log: TelemetryLog): string {
  const { timeMs, level, body, attributes, traceId, spanId, eventName } = log;
  const time = String(nanoseconds(timeMs));
  return JSON.stringify({
    timeUnixNano: time,
    observedTimeUnixNano: time,
    severityNumber: SEVERITIES[level],
    severityText: level.toUpperCase(),
    body: anyValue(body),
    attributes: keyValues(attributes),
    ...(traceId !== "" && { traceId }),
    ...(spanId !== "" && { spanId }),
    ...(eventName !== "" && { eventName }),
  });
}
