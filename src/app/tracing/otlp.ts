/**
 * Spans as opentelemetry-proto has them, in Protocol Buffers or JSON. A span is encoded once, in the thread
 * that made it; the request around it is put together when it is sent.
 *
 * @module
 */

import type { SpanAttributes } from "../../http/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import { ProtobufWriter } from "../../wire/mod.ts";

/** Where spans come from: attributes of the resource, and the version of this program. */
export interface SpanOrigin {
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly version: string;
}

const SCOPE = "postern";
const SPAN_KIND = { server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
/** Sampled, and the parent is in another process. */
const FLAGS = 0x301;

/** Numbers of the fields, by message. */
const REQUEST = { resourceSpans: 1 } as const;
const RESOURCE_SPANS = { resource: 1, scopeSpans: 2 } as const;
const RESOURCE = { attributes: 1 } as const;
const SCOPE_SPANS = { scope: 1, spans: 2 } as const;
const SCOPE_FIELDS = { name: 1, version: 2 } as const;
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
const KEY_VALUE = { key: 1, value: 2 } as const;
const ANY_VALUE = { text: 1, number: 3 } as const;

/** The span as one of `ScopeSpans`: such bytes after each other are a list of spans. */
export function writeOtlpSpan(writer: ProtobufWriter, span: FinishedSpan): void {
  writer.within(SCOPE_SPANS.spans, () => {
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

function writeAttributes(
  writer: ProtobufWriter,
  number: number,
  attributes: SpanAttributes,
): void {
  for (let at = 0; at < attributes.length; at += 2) {
    const value = attributes[at + 1] ?? "";
    writer.within(number, () => {
      writer.text(KEY_VALUE.key, String(attributes[at]));
      writer.within(KEY_VALUE.value, () => {
        if (typeof value === "number") writer.integer(ANY_VALUE.number, value);
        else writer.text(ANY_VALUE.text, value);
      });
    });
  }
}

/** `spans`: bytes of {@link writeOtlpSpan}. */
export function otlpRequest(spans: readonly Uint8Array[], origin: SpanOrigin): Uint8Array {
  const writer = new ProtobufWriter();
  writer.within(REQUEST.resourceSpans, () => {
    writer.within(RESOURCE_SPANS.resource, () => {
      writeAttributes(writer, RESOURCE.attributes, Object.entries(origin.attributes).flat());
    });
    writer.within(RESOURCE_SPANS.scopeSpans, () => {
      writer.within(SCOPE_SPANS.scope, () => {
        writer.text(SCOPE_FIELDS.name, SCOPE);
        writer.text(SCOPE_FIELDS.version, origin.version);
      });
      for (const bytes of spans) writer.raw(bytes);
    });
  });
  return writer.bytes.slice(0, writer.length);
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

/** `spans`: texts of {@link otlpJsonSpan} with commas between them. */
export function otlpJsonRequest(spans: string, { attributes, version }: SpanOrigin): string {
  const resource = JSON.stringify({ attributes: keyValues(Object.entries(attributes).flat()) });
  const scope = JSON.stringify({ name: SCOPE, version });
  return `{"resourceSpans":[{"resource":${resource},"scopeSpans":[` +
    `{"scope":${scope},"spans":[${spans}]}]}]}`;
}

function keyValues(attributes: SpanAttributes): readonly object[] {
  const list: object[] = [];
  for (let at = 0; at < attributes.length; at += 2) {
    const value = attributes[at + 1];
    list.push({
      key: attributes[at],
      value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
    });
  }
  return list;
}

/** A float cannot hold so many digits: whole microseconds. */
function nanoseconds(ms: number): bigint {
  return BigInt(Math.round(ms * 1_000)) * 1_000n;
}
