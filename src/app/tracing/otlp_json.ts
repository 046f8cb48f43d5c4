/** Spans in the JSON form of OTLP (opentelemetry-proto, `ExportTraceServiceRequest`). @module */

import type { SpanAttributes } from "../../http/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";

/** Where spans come from: attributes of the resource, and the version of this program. */
export interface SpanOrigin {
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly version: string;
}

const SPAN_KIND = { server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
/** The flags say whether the parent is remote; it is, always. */
const REMOTE_PARENT = 0x300;
const SAMPLED = 1;

export function otlpTraces(spans: readonly FinishedSpan[], origin: SpanOrigin): unknown {
  return {
    resourceSpans: [{
      resource: { attributes: keyValues(Object.entries(origin.attributes).flat()) },
      scopeSpans: [{
        scope: { name: "postern", version: origin.version },
        spans: spans.map(otlpSpan),
      }],
    }],
  };
}

function otlpSpan(span: FinishedSpan): unknown {
  const { traceId, spanId, parentId, name, kind, startMs, durationMs, attributes, events } = span;
  return {
    traceId,
    spanId,
    ...(parentId !== "" && { parentSpanId: parentId }),
    flags: SAMPLED | REMOTE_PARENT,
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

function keyValues(attributes: SpanAttributes): readonly unknown[] {
  const list: unknown[] = [];
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
