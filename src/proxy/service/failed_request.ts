/** Requests as operators see them: open ones, and the log line of failed ones. @module */

import { severityOf } from "../../base/mod.ts";
import {
  type ExchangeRecord,
  fieldOf,
  FLAG,
  type HttpVersion,
  pathWithoutQuery,
  type RequestHead,
} from "../../http/mod.ts";
import type { Session } from "../caller/session.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { Relay } from "../../net/mod.ts";
import type { SweepTime } from "../observe/connection_record.ts";
import type { RequestView } from "../observe/view.ts";

const SHOWN_CHARS = 500;

/** A caller's text as it is shown: all heads together may have many megabytes. */
function shown(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}

export interface FailedRequest {
  readonly method?: string;
  readonly path?: string;
  /** The intention that decided; `""`: none did. */
  readonly rule?: string;
  readonly upstreamHost?: string;
  /** Status that the client got, where it does not follow from the code. */
  readonly status?: number;
}

export function logFailedRequest(
  { record, stats, context: { log, sums } }: Pick<Session, "record" | "stats" | "context">,
  failure: RefusalReason,
  { method, path, rule, upstreamHost, status }: FailedRequest,
): void {
  const { code, reason } = failure;
  if (code === "intention_denied") stats.metrics.denied.add(1);
  const level = severityOf(code);
  if (!log.enabled(level) || !sums.isTold(record, failure, level, "requests")) return;
  log[level]("request failed", {
    direction: record.direction,
    listener: record.listener,
    source: record.source || record.remote,
    destination: record.destination,
    method: method === undefined ? undefined : shown(method),
    // Queries carry secrets.
    path: path === undefined ? undefined : shown(pathWithoutQuery(path)),
    endpoint: upstreamHost || undefined,
    code,
    status: status || undefined,
    reason: reason === rule ? undefined : reason,
    rule: rule || undefined,
  });
}

/** `status`: what its client got; 0: nothing. */
export interface InvalidRequest {
  readonly version: HttpVersion;
  readonly status: number;
  readonly detail: string;
}

const TOO_LARGE = 431;

/** Notes a request against the protocol; flags and details are Envoy's. */
export function noteInvalid(
  record: ExchangeRecord,
  { version, status, detail }: InvalidRequest,
): void {
  const isHttp2 = version === "HTTP/2";
  record.status = status;
  record.flags |= FLAG.DPE;
  record.code = "request_invalid";
  record.details = status === TOO_LARGE
    ? isHttp2 ? "http2.too_many_headers" : "http1.headers_too_large"
    : isHttp2
    ? "http2.violation.of.messaging.rule"
    : "http1.codec_error";
  // With HTTP/2 only the stream ends.
  if (!isHttp2) record.connectionDetails = detail;
}

/** An open request, as `/connections` shows it. */
export function requestView(
  record: ExchangeRecord,
  { request, relay, activeTick }: {
    readonly request: RequestHead;
    /** Set after an upgrade. */
    readonly relay: Relay | undefined;
    /** Tick of the last byte of its messages. */
    readonly activeTick: number;
  },
  { ms, tick, tickMs }: SweepTime,
): RequestView {
  const { method, authority, path, fields } = request;
  return {
    id: shown(fieldOf(fields, "x-request-id") ?? ""),
    method: shown(method),
    authority: shown(authority),
    path: shown(pathWithoutQuery(path)),
    status: record.status,
    endpoint: record.upstreamHost,
    rule: record.rule,
    ageMs: Math.round(ms - record.startedAt),
    idleMs: (tick - (relay?.activeTick ?? activeTick)) * tickMs,
    receivedBytes: record.receivedBytes + (relay?.receivedBytes ?? 0),
    sentBytes: record.sentBytes + (relay?.sentBytes ?? 0),
  };
}
