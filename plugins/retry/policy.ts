/**
 * When and how often a request is retried: the names and semantics of Consul's service-router and of Envoy's
 * `x-envoy-retry-on`.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpResponse } from "../../src/plugin/api.ts";

const CONDITIONS = [
  "5xx",
  "gateway-error",
  "reset",
  "connect-failure",
  "envoy-ratelimited",
  "retriable-4xx",
  "refused-stream",
  "retriable-status-codes",
  "cancelled",
  "deadline-exceeded",
  "internal",
  "resource-exhausted",
  "unavailable",
] as const;
export type RetryCondition = typeof CONDITIONS[number];

const Count = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(100));
const Status = v.pipe(v.number(), v.integer(), v.minValue(200), v.maxValue(599));

export const POLICY = {
  numRetries: v.optional(Count),
  retryOnConnectFailure: v.optional(v.boolean()),
  retryOn: v.optional(v.array(v.picklist(CONDITIONS))),
  retryOnStatusCodes: v.optional(v.array(Status)),
  perTryTimeoutMs: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
} as const;
const Given = v.object(POLICY);

export interface RetryPolicy {
  readonly numRetries: number;
  readonly on: ReadonlySet<RetryCondition>;
  readonly statuses: ReadonlySet<number>;
  /** 0: no timeout. */
  readonly perTryTimeoutMs: number;
}

/** `undefined`: no retries. */
export function policyOf(given: v.InferOutput<typeof Given>): RetryPolicy | undefined {
  const { retryOnConnectFailure, retryOn = [], retryOnStatusCodes = [], perTryTimeoutMs } = given;
  const on = new Set<RetryCondition>(retryOn);
  if (retryOnConnectFailure) on.add("connect-failure");
  if (retryOnStatusCodes.length > 0) on.add("retriable-status-codes");
  // In both cases no endpoint received the request, so a retry is always safe.
  if (on.size === 0 && given.numRetries) on.add("connect-failure").add("refused-stream");
  const { numRetries = 1 } = given;
  if (on.size === 0 || numRetries === 0) return undefined;
  const statuses = new Set(retryOnStatusCodes);
  return { numRetries, on, statuses, perTryTimeoutMs: perTryTimeoutMs ?? 0 };
}

/** Failures to connect. */
const CONNECT_FAILURES: ReadonlySet<string> = new Set([
  "endpoint_refused",
  "endpoint_timed_out",
  "endpoint_untrusted",
  "local_refused",
  "local_timed_out",
  "refused_by_peer",
]);
const RESETS: ReadonlySet<string> = new Set([
  "endpoint_reset",
  "response_invalid",
  "response_reset",
  // The timeout of this attempt; the timeout of the request is enforced further out.
  "response_timed_out",
]);
const GATEWAY_ERRORS: ReadonlySet<number> = new Set([502, 503, 504]);
const GRPC_CONDITIONS: ReadonlyMap<string, RetryCondition> = new Map([
  ["1", "cancelled"],
  ["4", "deadline-exceeded"],
  ["8", "resource-exhausted"],
  ["13", "internal"],
  ["14", "unavailable"],
]);

/** Whether the result of an attempt is to be retried. A refusal by our own limits never is. */
export function asksForAnother({ on, statuses }: RetryPolicy, response: HttpResponse): boolean {
  const { status, headers, failure } = response;
  if (failure) {
    const { code, wasSent } = failure;
    const isDial = CONNECT_FAILURES.has(code);
    if (!isDial && !RESETS.has(code)) return false;
    if (on.has("5xx") || on.has("gateway-error") || on.has("reset")) return true;
    if (isDial) return on.has("connect-failure");
    return code === "response_reset" && !wasSent && on.has("refused-stream");
  }
  if (response.endpoint === null) return false;
  // A rate-limited response is retried only if the policy lists it.
  if (headers.get("x-envoy-ratelimited") !== undefined) return on.has("envoy-ratelimited");
  if (status >= 500 && on.has("5xx")) return true;
  if (GATEWAY_ERRORS.has(status) && on.has("gateway-error")) return true;
  if (status === 409 && on.has("retriable-4xx")) return true;
  if (statuses.has(status) && on.has("retriable-status-codes")) return true;
  const said = GRPC_CONDITIONS.get(headers.get("grpc-status") ?? "");
  return said !== undefined && on.has(said);
}
