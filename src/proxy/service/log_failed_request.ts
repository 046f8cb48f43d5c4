/**
 * The line about a request that failed, for whoever looks after the proxy now: who asked for what, and why
 * it was not had. A flood of them is summed up; the access log has each.
 *
 * @module
 */

import { pathWithoutQuery } from "../../http/mod.ts";
import type { Downstream } from "../caller/downstream.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import { severityOf } from "../observe/severity.ts";

const SHOWN_CHARS = 500;

/** What people are shown of a text that is the caller's: all heads together may have many megabytes. */
export function shown(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}

export interface FailedRequest {
  readonly method?: string;
  readonly path?: string;
  /** The intention that decided; `""`: none was asked. */
  readonly rule?: string;
  readonly upstreamHost?: string;
  /** What its client was told; only where that does not follow from the code. */
  readonly status?: number;
}

export function logFailedRequest(
  { record, stats, context: { log, sums } }: Pick<Downstream, "record" | "stats" | "context">,
  failure: RefusalReason,
  { method, path, rule, upstreamHost, status }: FailedRequest,
): void {
  const { code, reason } = failure;
  if (code === "intention_denied") stats.denied.add(1);
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
