/**
 * What becomes of an endpoint that failed: passive health hears of it, and people where it is ejected.
 *
 * @module
 */

import { ERROR_CODES, formatAddress, type Stats } from "../base/mod.ts";
import type { Context } from "./context.ts";
import type { Failure } from "./refusal_sums.ts";
import type { Lease } from "./target_group.ts";

const FAILURES = "endpoint_failures_total";
const EJECTIONS = "endpoint_ejections_total";

/** Gives the names of a target that nobody asks for any more back. */
export function forgetTarget(stats: Stats, target: string): void {
  for (const code of ERROR_CODES) stats.remove(FAILURES, { target, code });
  stats.remove(EJECTIONS, { target });
}

/** Counts it; the same failure as the attempt would end with. The lease may be given back already. */
export function reportDialFailure(
  lease: Lease,
  { code, reason }: Failure,
  { context, name }: { readonly context: Context; readonly name: string },
): Failure {
  const { log, stats } = context;
  const target = lease.target.part.key;
  const endpoint = addressOf(lease);
  stats.counter(FAILURES, "Dials that failed", { target, code }).add(1);
  log.debug("endpoint failed", { target, endpoint, code, reason });
  countFailure(lease, context);
  return { code, reason: `Cannot dial "${name}" at ${endpoint}: ${reason}` };
}

/** Against the endpoint, which may be ejected for it. */
export function countFailure(lease: Lease, { log, stats, clock }: Context): void {
  const { pool, part: { key: target } } = lease.target;
  if (!pool.failed(lease.state, clock.monotonic())) return;
  stats.counter(EJECTIONS, "Endpoints ejected", { target }).add(1);
  log.warn("endpoint ejected", { target, endpoint: addressOf(lease) });
}

export function addressOf({ state: { endpoint } }: Lease): string {
  return formatAddress({ kind: "tcp", ...endpoint });
}
