/** Exchanges as access log operators read them, and their summary at the end. @module */

import type { Clock } from "../base/mod.ts";
import { compileFieldValue, type ExchangeRecord } from "../http/mod.ts";
import type {
  Endpoint,
  Exchange,
  ExchangeSummary,
  Host,
  HttpResponse,
  RequestArgs,
} from "./api.ts";
import { PluginRequest, PluginResponse } from "./messages.ts";

/** The key of the record that operators read; plugins do not see it. */
export const RECORD: unique symbol = Symbol("record");
export interface RecordedExchange extends Exchange {
  readonly [RECORD]: ExchangeRecord;
}

/** Throws a TypeError that names the fault in `text`. */
export function headerValueOf(
  text: string,
  clock: Clock,
  environment: Parameters<typeof compileFieldValue>[1],
): ReturnType<Host["headerValue"]> {
  const compiled = compileFieldValue(text, environment);
  if (compiled.kind === "refused") {
    throw new TypeError(`header value ${JSON.stringify(text)}: it ${compiled.reason}`);
  }
  const { value } = compiled;
  if (typeof value === "string") return () => value;
  return (args, response) => value(recordOf(args, response, clock));
}

/** The record with the request and response of this layer, at this moment. */
function recordOf(
  { exchange, request }: RequestArgs,
  response: HttpResponse | undefined,
  clock: Clock,
): ExchangeRecord {
  if (!(RECORD in exchange) || !(request instanceof PluginRequest)) {
    throw new TypeError("headerValue: of no exchange that is under way here");
  }
  const record = (exchange as RecordedExchange)[RECORD];
  const now = clock.monotonic();
  // As in Envoy, the first attempt begins when the route is known.
  const soFar = { request: request.head, attempts: Math.max(record.attempts, 1), endAt: now };
  if (!(response instanceof PluginResponse)) return Object.assign(Object.create(record), soFar);
  return Object.assign(Object.create(record), soFar, {
    response: response.head,
    status: response.status,
    details: record.details || (response.endpoint ? "via_upstream" : ""),
    upstreamFirstByteAt: now,
  });
}

/** The summary of a completed exchange; keeps the record for a line of the access log. */
export class EndedExchange implements ExchangeSummary {
  readonly status: number;
  readonly code: string;
  readonly attempts: number;
  readonly durationMs: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly endpoint: Endpoint | null;
  readonly #record: ExchangeRecord;

  /** `record` is complete. */
  constructor(record: ExchangeRecord) {
    this.status = record.status;
    this.code = record.code ?? "";
    this.attempts = record.attempts;
    this.durationMs = record.endAt - record.startedAt;
    this.receivedBytes = record.receivedBytes;
    this.sentBytes = record.sentBytes;
    this.endpoint = record.upstreamHost === "" ? null : { address: record.upstreamHost };
    this.#record = record;
  }

  /** Throws for a summary that a plugin made. */
  static recordOf(ended: ExchangeSummary): ExchangeRecord {
    if (#record in ended) return ended.#record;
    throw new TypeError("it was not told by onEnd()");
  }
}
