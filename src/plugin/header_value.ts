/**
 * Values of headers that say something of an exchange, by the operators of access logs.
 *
 * @module
 */

import type { Clock } from "../base/mod.ts";
import { compileFieldValue, type ExchangeRecord } from "../http/mod.ts";
import type { Exchange, Host, HttpResponse, RequestArgs } from "./api.ts";
import { PluginRequest, PluginResponse } from "./messages.ts";

/** Where an exchange has what operators read; plugins are not shown that. */
export const RECORD: unique symbol = Symbol("record");
export interface RecordedExchange extends Exchange {
  readonly [RECORD]: ExchangeRecord;
}

/** Throws a TypeError that says what of `text` cannot be. */
export function headerValueOf(
  text: string,
  clock: Clock,
  around: Parameters<typeof compileFieldValue>[1],
): ReturnType<Host["headerValue"]> {
  const compiled = compileFieldValue(text, around);
  if (compiled.kind === "refused") {
    throw new TypeError(`header value ${JSON.stringify(text)}: it ${compiled.reason}`);
  }
  const { value } = compiled;
  if (typeof value === "string") return () => value;
  return (args, response) => value(recordOf(args, response, clock));
}

/** As it is at that layer, and at this moment. */
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
  // As with Envoy it is at its first attempt from when its route is known.
  const soFar = { request: request.head, attempts: Math.max(record.attempts, 1), endAt: now };
  if (!(response instanceof PluginResponse)) return Object.assign(Object.create(record), soFar);
  return Object.assign(Object.create(record), soFar, {
    response: response.head,
    status: response.status,
    details: record.details || (response.endpoint ? "via_upstream" : ""),
    upstreamFirstByteAt: now,
  });
}
