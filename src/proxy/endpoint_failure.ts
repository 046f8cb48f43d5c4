/**
 * What becomes of an endpoint that failed: passive health hears of it, and people where it is ejected.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
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

/** Counts it; the same failure as the connection would end with. The lease may be given back already. */
export function reportDialFailure(
  lease: Lease,
  { code, reason }: DialFailure,
  { context, record }: Of,
): DialFailure {
  const { log, stats } = context;
  const target = lease.target.part.key;
  const { endpoint } = record;
  stats.counter("endpoint_failures_total", "Dials that failed", { target, code }).add(1);
  log.debug("endpoint failed", { target, endpoint, code, reason });
  countFailure(lease, { context, record });
  return { code, reason: `Cannot dial "${record.destination}" at ${endpoint}: ${reason}` };
}

/** Against the endpoint, which may be ejected for it. */
export function countFailure({ target, state }: Lease, { context, record }: Of): void {
  const { log, stats, clock } = context;
  if (!target.pool.failed(state, clock.monotonic())) return;
  const { key } = target.part;
  stats.counter("endpoint_ejections_total", "Endpoints ejected", { target: key }).add(1);
  log.warn("endpoint ejected", { target: key, endpoint: record.endpoint });
}
