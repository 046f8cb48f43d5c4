/**
 * What becomes of an endpoint that failed: passive health hears of it, and people where it is ejected.
 *
 * @module
 */

import { ERROR_CODES, formatAddress, type Stats } from "../../base/mod.ts";
import type { Context } from "../core/context.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
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
  { code, reason }: RefusalReason,
  { context, name }: { readonly context: Context; readonly name: string },
): RefusalReason {
  const { log, stats } = context;
  const target = lease.target.part.key;
  const endpoint = addressOf(lease);
  stats.counter(
    FAILURES,
    "Attempts to connect to an instance that failed, by target and error code",
    { target, code },
  ).add(1);
  log.debug("endpoint failed", { target, endpoint, code, reason });
  countFailure(lease, `${code}: ${reason}`, context);
  return { code, reason: `Cannot dial "${name}" at ${endpoint}: ${reason}` };
}

/** Against the endpoint, which may be ejected for it; `why`: what the last failure was. */
export function countFailure(lease: Lease, why: string, context: Context): void {
  const { pool } = lease.target;
  if (pool.failed(lease.state, context.clock.monotonic(), why)) reportEjection(lease, why, context);
}

/** The endpoint ended a connection after the handshake and had said nothing. */
export function countRefusal(lease: Lease, context: Context): void {
  const { pool } = lease.target;
  const why = "refused_by_peer: it ends connections after the handshake";
  if (!pool.refused(lease.state, context.clock.monotonic(), why)) return;
  reportEjection(lease, `${why}, and others answer`, context);
}

/** Neither requests nor a handshake of their own were answered. `true`: it is ejected. */
export function countSilence(lease: Lease, reason: string, context: Context): boolean {
  const { pool } = lease.target;
  if (!pool.silent(lease.state, context.clock.monotonic(), reason)) return false;
  reportEjection(lease, reason, context);
  return true;
}

/** Says why, and until when. */
function reportEjection(lease: Lease, why: string, { log, stats, clock }: Context): void {
  const { state, target: { part: { key: target } } } = lease;
  stats.counter(
    EJECTIONS,
    "Times that an instance was taken out of balancing for failing, by target",
    { target },
  ).add(1);
  const forMs = state.ejectedUntilMs - clock.monotonic();
  log.warn("endpoint ejected", {
    ...{ target, endpoint: addressOf(lease), reason: why },
    until: new Date(clock.now() + forMs).toISOString(),
    for_ms: Math.round(forMs),
  });
}

export function addressOf({ state: { endpoint } }: Lease): string {
  return formatAddress({ kind: "tcp", ...endpoint });
}
