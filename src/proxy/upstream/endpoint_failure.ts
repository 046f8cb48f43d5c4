/** Records failures of endpoints: passive health, metrics, ejections, refusals. @module */

import { ERROR_CODES, formatAddress, formatSpanMs, type Stats } from "../../base/mod.ts";
import { upstreamLabel } from "../../snapshot/mod.ts";
import { instanceName } from "../../balance/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import { askThere } from "../observe/upstream_refusals.ts";
import type { Lease } from "./target_group.ts";
import type { Relay, RelayEnd } from "../../net/mod.ts";
import type { Ending } from "../observe/connection_record.ts";

const FAILURES = "endpoint_failures_total";
const EJECTIONS = "endpoint_ejections_total";

/** Removes the metrics of a target that is no longer used. */
export function forgetTarget(stats: Stats, target: string): void {
  for (const code of ERROR_CODES) stats.remove(FAILURES, { target, code });
  stats.remove(EJECTIONS, { target });
}

/** Counts the failure with which the attempt would end. The lease may be released already. */
export function reportDialFailure(
  lease: Lease,
  { code, reason }: RefusalReason,
  { context, name }: { readonly context: UpstreamContext; readonly name: string },
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

/** Counts against the endpoint, which may be ejected. `why`: the last failure. */
export function countFailure(lease: Lease, why: string, context: UpstreamContext): void {
  const { pool } = lease.target;
  if (!pool.failed(lease.state, context.clock.monotonic(), why)) return;
  const { maxFailures } = pool;
  const after = maxFailures > 1 ? `${maxFailures} failures in a row, the last: ` : "";
  reportEjection(lease, why, context, after);
}

/** The endpoint ended a connection after the handshake without sending anything. */
export function countRefusal(lease: Lease, context: UpstreamContext): void {
  const { pool } = lease.target;
  const why = "refused_by_peer: it ends connections after the handshake";
  if (!pool.refused(lease.state, context.clock.monotonic(), why)) return;
  reportEjection(lease, `${why}, and others answer`, context);
}

/** Neither requests nor a handshake of its own was answered. Returns whether the endpoint is ejected. */
export function countSilence(lease: Lease, reason: string, context: UpstreamContext): boolean {
  const { pool } = lease.target;
  if (!pool.silent(lease.state, context.clock.monotonic(), reason)) return false;
  reportEjection(lease, reason, context);
  return true;
}

/** The end of an ejection is reported with this precision. */
const RETURN_STEP_MS = 100;

/** Reports reason, begin and end of the ejection. */
function reportEjection(lease: Lease, why: string, context: UpstreamContext, after = ""): void {
  const { log, stats, clock, conditions, deadlines } = context;
  const { state, target: { pool, part: { key: target }, upstream: { part: upstream } } } = lease;
  stats.counter(
    EJECTIONS,
    "Times that an instance was taken out of balancing for failing, by target",
    { target },
  ).add(1);
  const nowMs = clock.monotonic();
  const forMs = state.ejectedUntilMs - nowMs;
  const key = ["ejected", upstream.id, target, state.endpoint.id, addressOf(lease)].join(" ");
  const name = instanceName(state.endpoint);
  const about = { kind: "endpoint", subject: upstreamLabel(upstream) } as const;
  const steps = Math.ceil(forMs / RETURN_STEP_MS);
  deadlines.after(steps * RETURN_STEP_MS, () => {
    const isThere = pool.has(state);
    conditions.ended(key, isThere ? { ...about, text: `${name} back in balancing` } : undefined);
  });
  const isTold = conditions.began(key, {
    ...about,
    text: `${name} ejected for ${formatSpanMs(steps * RETURN_STEP_MS)}: ${after}${why}`,
    effect: `${pool.usableCount(nowMs)} of ${pool.size} instances left in balancing`,
    severity: "warn",
    isLogged: true,
  });
  log[isTold ? "warn" : "debug"]("endpoint ejected", {
    target,
    endpoint: addressOf(lease),
    reason: why,
    until: new Date(clock.now() + forMs).toISOString(),
    for_ms: Math.round(forMs),
  });
}

export function addressOf({ state: { endpoint } }: Lease): string {
  return formatAddress({ kind: "tcp", ...endpoint });
}

/** An end within so many ticks of the start, or of the caller's first byte, is a response to it. */
const AT_ONCE_TICKS = 1;
/** Minimum pause between warnings about one upstream. */
const WARN_EVERY_MS = 60_000;

/**
 * Whether the server refused us. In TLS 1.3 a client is connected before the server has judged it, and Envoy
 * judges only at the first byte: a denial looks like a close. A server that sent bytes did not refuse, nor one
 * that ended after the caller did, or later on: an application may close an idle connection.
 */
export function isRefusal(relay: Relay, end: RelayEnd): boolean {
  if (relay.sentBytes > 0) return false;
  if (end.kind === "reset" && end.by === "upstream" && end.alert !== "") return true;
  // A caller may end its own half much later.
  const { endTick = 0, firstTick } = relay;
  return end.first === "upstream" && endTick - firstTick <= AT_ONCE_TICKS;
}

/**
 * The ending of a connection that was probably refused. No TLS library here lets a server choose the alert
 * after its handshake, so the peer cannot say why. `refusals`: those by the servers of one upstream.
 */
export function refusalEnding(
  end: RelayEnd,
  { refusals, nowMs, caller }: {
    readonly refusals: { warnedMs: number };
    readonly nowMs: number;
    readonly caller: string;
  },
): Ending {
  const quiet = nowMs - refusals.warnedMs < WARN_EVERY_MS;
  if (!quiet) refusals.warnedMs = nowMs;
  const alert = end.kind === "reset" ? end.alert : "";
  // Short: it is in every line about such connections. The command and `explain CODE` have the causes.
  const reason = alert
    ? `the peer ended it after the handshake and sent nothing: ${alert}`
    : `probably refused; ${askThere(caller)}`;
  return { kind: "failed", code: "refused_by_peer", reason, quiet };
}
