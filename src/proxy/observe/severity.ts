/**
 * How loud a failure is in the log. What breaks traffic that the mesh allows is a warning; what a rule
 * decides, or a caller brings about alone, is not. Metrics count each.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";

export type Severity = "debug" | "info" | "warn";

const WARNED: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  // Who the peer is, or that nothing of ours can say so.
  ...["identity_invalid", "chain_untrusted", "endpoint_untrusted", "not_ready"] as const,
  "authorize_failed",
  // There is no place, or nobody to go to.
  ...["overloaded", "limit_reached", "no_endpoint"] as const,
  // The upstream or the application does not do its part.
  ...["endpoint_refused", "endpoint_timed_out", "endpoint_reset", "refused_by_peer"] as const,
  ...["local_refused", "local_timed_out"] as const,
  ...["response_invalid", "response_reset", "response_timed_out"] as const,
  ...["plugin_failed", "internal"] as const,
]);

export function severityOf(code: ErrorCode): Severity {
  // An agent's own TCP check connects and leaves every ten seconds.
  if (code === "closed_early") return "debug";
  return WARNED.has(code) ? "warn" : "info";
}
