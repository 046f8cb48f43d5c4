/**
 * Spans as `ExportTraceServiceRequest` of opentelemetry-proto, in JSON or Protocol Buffers. One function
 * builds the message, with the names of its fields in JSON; a table has their numbers.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { SpanAttributes } from "../../http/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import { type PlainMessage, Protobuf } from "../../wire/mod.ts";

/** Where spans come from: attributes of the resource, and the version of this program. */
export interface SpanOrigin {
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly version: string;
}

const SPAN_KIND = { server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
/** Sampled, and the parent is in another process. */
const FLAGS = 0x301;

const REQUEST = "ExportTraceServiceRequest";
/** The part of opentelemetry-proto that is sent. */
export const OTLP_TYPES = {
  [REQUEST]: { resourceSpans: "1 repeated ResourceSpans" },
  ResourceSpans: { resource: "1 Resource", scopeSpans: "2 repeated ScopeSpans" },
  Resource: { attributes: "1 repeated KeyValue" },
  ScopeSpans: { scope: "1 InstrumentationScope", spans: "2 repeated Span" },
  InstrumentationScope: { name: "1 string", version: "2 string" },
  Span: {
    traceId: "1 bytes",
    spanId: "2 bytes",
    parentSpanId: "4 bytes",
    name: "5 string",
    kind: "6 int32",
    startTimeUnixNano: "7 fixed64",
    endTimeUnixNano: "8 fixed64",
    attributes: "9 repeated KeyValue",
    events: "11 repeated Event",
    status: "15 Status",
    flags: "16 fixed32",
  },
  Event: { timeUnixNano: "1 fixed64", name: "2 string", attributes: "3 repeated KeyValue" },
  Status: { message: "2 string", code: "3 int32" },
  KeyValue: { key: "1 string", value: "2 AnyValue" },
  AnyValue: { stringValue: "1 oneof string", intValue: "3 oneof int64" },
} as const;

const protobuf = new Protobuf(OTLP_TYPES);

/** Ids are hexadecimal in JSON, and bytes in Protocol Buffers. */
type IdForm = (hex: string) => string | Uint8Array;

export function otlpJson(spans: readonly FinishedSpan[], origin: SpanOrigin): string {
  return JSON.stringify(request(spans, origin, (hex) => hex));
}

export function otlpProtobuf(spans: readonly FinishedSpan[], origin: SpanOrigin): Uint8Array {
  const bytesOf = (hex: string) => Buffer.from(hex, "hex");
  return protobuf.encode(REQUEST, request(spans, origin, bytesOf));
}

function request(
  spans: readonly FinishedSpan[],
  { attributes, version }: SpanOrigin,
  idForm: IdForm,
): PlainMessage {
  return {
    resourceSpans: [{
      resource: { attributes: keyValues(Object.entries(attributes).flat()) },
      scopeSpans: [{
        scope: { name: "postern", version },
        spans: spans.map((span) => spanMessage(span, idForm)),
      }],
    }],
  };
}

function spanMessage(span: FinishedSpan, idForm: IdForm): PlainMessage {
  const { traceId, spanId, parentId, name, kind, startMs, durationMs, attributes, events } = span;
  return {
    traceId: idForm(traceId),
    spanId: idForm(spanId),
    ...(parentId !== "" && { parentSpanId: idForm(parentId) }),
    flags: FLAGS,
    name,
    kind: SPAN_KIND[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(startMs + durationMs),
    attributes: keyValues(attributes),
    events: events.map((event) => ({
      name: event.name,
      timeUnixNano: nanoseconds(startMs + event.afterMs),
      attributes: keyValues(event.attributes),
    })),
    status: span.error === "" ? {} : { code: STATUS_ERROR, message: span.error },
  };
}

function keyValues(attributes: SpanAttributes): readonly PlainMessage[] {
  const list: PlainMessage[] = [];
  for (let at = 0; at < attributes.length; at += 2) {
    const value = attributes[at + 1];
    list.push({
      key: attributes[at],
      value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
    });
  }
  return list;
}

/** A number of 64 bits, whose nanoseconds a float cannot hold: as text, with microseconds. */
function nanoseconds(ms: number): string {
  return `${Math.round(ms * 1_000)}000`;
}
