/**
 * What becomes of an endpoint that failed: passive health hears of it, and people where it is ejected.
 *
 * @module
 */

import { ERROR_CODES, type ErrorCode, type Stats } from "../base/mod.ts";
import type { ConnectionRecord } from "./connection.ts";
import type { Context } from "./context.ts";
import type { Lease } from "./upstream.ts";

export interface DialFailure {
  readonly code: ErrorCode;
  readonly reason: string;
}

interface Of {
  readonly context: Context;
  readonly record: ConnectionRecord;
}

const FAILURES = "endpoint_failures_total";
const EJECTIONS = "endpoint_ejections_total";

/** Gives the names of a target that nobody asks for any more back. */
export function forgetTarget(stats: Stats, target: string): void {
  for (const code of ERROR_CODES) stats.remove(FAILURES, { target, code });
  stats.remove(EJECTIONS, { target });
}

/** Counts it; the same failure as the connection would end with. The lease may be given back already. */
export function reportDialFailure(
  lease: Lease,
  { code, reason }: DialFailure,
  { context, record }: Of,
): DialFailure {
  const { log, stats } = context;
  const target = lease.target.part.key;
  const { endpoint } = record;
  stats.counter(FAILURES, "Dials that failed", { target, code }).add(1);
  log.debug("endpoint failed", { target, endpoint, code, reason });
  countFailure(lease, { context, record });
  return { code, reason: `Cannot dial "${record.destination}" at ${endpoint}: ${reason}` };
}

/** Against the endpoint, which may be ejected for it. */
export function countFailure({ target, state }: Lease, { context, record }: Of): void {
  const { log, stats, clock } = context;
  if (!target.pool.failed(state, clock.monotonic())) return;
  const { key } = target.part;
  stats.counter(EJECTIONS, "Endpoints ejected", { target: key }).add(1);
  log.warn("endpoint ejected", { target: key, endpoint: record.endpoint });
}
