/** Spans as opentelemetry-proto has them, in Protocol Buffers or JSON. @module */

import type { FinishedSpan } from "../../proxy/mod.ts";
import type { ProtobufWriter } from "../../wire/mod.ts";
import { keyValues, nanoseconds, writeAttributes, writeItem } from "./otlp.ts";

const SPAN_KIND = { internal: 1, server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
/** Sampled, and the parent is in another process. */
const FLAGS = 0x301;

/** Numbers of the fields, by message. */
const SPAN = {
  traceId: 1,
  spanId: 2,
  parentSpanId: 4,
  name: 5,
  kind: 6,
  start: 7,
  end: 8,
  attributes: 9,
  events: 11,
  status: 15,
  flags: 16,
} as const;
const EVENT = { time: 1, name: 2, attributes: 3 } as const;
const STATUS = { message: 2, code: 3 } as const;

export function writeOtlpSpan(writer: ProtobufWriter, span: FinishedSpan): void {
  writeItem(writer, () => {
    const { startMs, durationMs, events, parentId, error } = span;
    writer.hex(SPAN.traceId, span.traceId);
    writer.hex(SPAN.spanId, span.spanId);
    if (parentId !== "") writer.hex(SPAN.parentSpanId, parentId);
    writer.text(SPAN.name, span.name);
    writer.integer(SPAN.kind, SPAN_KIND[span.kind]);
    writer.fixed64(SPAN.start, nanoseconds(startMs));
    writer.fixed64(SPAN.end, nanoseconds(startMs + durationMs));
    writeAttributes(writer, SPAN.attributes, span.attributes);
    for (const { name, afterMs, attributes } of events) {
      writer.within(SPAN.events, () => {
        writer.fixed64(EVENT.time, nanoseconds(startMs + afterMs));
        writer.text(EVENT.name, name);
        writeAttributes(writer, EVENT.attributes, attributes);
      });
    }
    if (error !== "") {
      writer.within(SPAN.status, () => {
        writer.text(STATUS.message, error);
        writer.integer(STATUS.code, STATUS_ERROR);
      });
    }
    writer.fixed32(SPAN.flags, FLAGS);
  });
}

export function otlpJsonSpan(span: FinishedSpan): string {
  const { traceId, spanId, parentId, name, kind, startMs, durationMs, attributes, events } = span;
  return JSON.stringify({
    traceId,
    spanId,
    ...(parentId !== "" && { parentSpanId: parentId }),
    flags: FLAGS,
    name,
    kind: SPAN_KIND[kind],
    startTimeUnixNano: String(nanoseconds(startMs)),
    endTimeUnixNano: String(nanoseconds(startMs + durationMs)),
    attributes: keyValues(attributes),
    events: events.map((event) => ({
      name: event.name,
      timeUnixNano: String(nanoseconds(startMs + event.afterMs)),
      attributes: keyValues(event.attributes),
    })),
    status: span.error === "" ? {} : { code: STATUS_ERROR, message: span.error },
  });
}
