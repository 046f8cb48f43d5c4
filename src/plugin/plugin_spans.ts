/** Spans that plugins make within the trace of an exchange. @module */

import { randomBytes } from "node:crypto";
import type { ChildSpan, ExchangeTrace } from "../http/mod.ts";
import type { Span } from "./api.ts";
import { withoutSecrets } from "./secrets.ts";

const MAX_SPANS = 16;
const MAX_ATTRIBUTES = 16;
const MAX_CHARS = 256;
const SPAN_ID_BYTES = 8;

const NOT_TRACED: Span = { traceparent: "", end() {} };

export function spanIn(trace: ExchangeTrace | undefined, name: string): Span {
  if (!trace) return NOT_TRACED;
  const children = trace.children ??= [];
  if (children.length >= MAX_SPANS) return NOT_TRACED;
  const spanId = randomBytes(SPAN_ID_BYTES).toString("hex");
  const child: ChildSpan = {
    name: shown(name),
    spanId,
    startedAt: trace.now(),
    endAt: undefined,
    attributes: [],
  };
  children.push(child);
  return {
    traceparent: `00-${trace.traceId}-${spanId}-01`,
    end(attributes = {}) {
      if (child.endAt !== undefined) return;
      child.endAt = trace.now();
      child.attributes = Object.entries(attributes).slice(0, MAX_ATTRIBUTES).flatMap((
        [key, value],
      ) => [shown(key), typeof value === "number" ? value : shown(String(value))]);
    },
  };
}

function shown(text: string): string {
  return withoutSecrets(text).slice(0, MAX_CHARS);
}
