/** Spans in the JSON form of Zipkin's API, version 2. @module */

import type { SpanAttributes } from "../../http/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";

/** Zipkin has no word for a span within a process, which then has no kind. */
const SPAN_KIND = { internal: undefined, server: "SERVER", client: "CLIENT" } as const;

export function zipkinSpan(span: FinishedSpan, service: string): string {
  const { traceId, spanId, parentId, name, kind, startMs, durationMs, events, error } = span;
  return JSON.stringify({
    traceId,
    id: spanId,
    ...(parentId !== "" && { parentId }),
    name,
    kind: SPAN_KIND[kind],
    timestamp: microseconds(startMs),
    // A duration of 0 means that the span is not complete.
    duration: Math.max(1, microseconds(durationMs)),
    localEndpoint: { serviceName: service },
    annotations: events.map(({ name, afterMs, attributes }) => ({
      timestamp: microseconds(startMs + afterMs),
      value: [name, ...Object.entries(tagsOf(attributes)).map((tag) => tag.join("="))].join(" "),
    })),
    tags: { ...tagsOf(span.attributes), ...(error !== "" && { error }) },
  });
}

function tagsOf(attributes: SpanAttributes): Record<string, string> {
  const tags: Record<string, string> = {};
  for (let at = 0; at < attributes.length; at += 2) {
    tags[String(attributes[at])] = String(attributes[at + 1]);
  }
  return tags;
}

function microseconds(ms: number): number {
  return Math.round(ms * 1_000);
}
