/**
 * Instances that keep failing, by what the data paths have counted.
 *
 * @module
 */

import type { EndpointView } from "../proxy/mod.ts";

/** One failure is no trend; an ejected instance has reached its limit of failures. */
const IN_A_ROW = 3;

/** No request and no connection has succeeded since. */
export function keepsFailing(
  { failures, lastFailure, ejectedForMs }: Pick<
    EndpointView,
    "failures" | "lastFailure" | "ejectedForMs"
  >,
): boolean {
  // An instance that ends connections right after the handshake fails without a count.
  return failures >= IN_A_ROW || ejectedForMs > 0 || failures === 0 && lastFailure !== "";
}

/**
 * The instances that traffic goes to now, of targets in failover order: the first target with instances
 * that are neither ejected nor a last resort; without such, all that there are.
 */
export function instancesInUse<T extends Pick<EndpointView, "ejectedForMs" | "lastResort">>(
  targets: readonly (readonly T[])[],
): readonly T[] {
  const usable = targets.map((instances) =>
    instances.filter(({ ejectedForMs, lastResort }) => ejectedForMs === 0 && !lastResort)
  );
  return usable.find(({ length }) => length > 0) ?? targets.flat();
}

/** `the last 3 requests failed, the last of them was answered 503 by the other side`. */
export function failureText(
  { failures, lastFailure }: Pick<EndpointView, "failures" | "lastFailure">,
  unit: "connections" | "requests",
): string {
  const [, status] = /^status (\d+)$/.exec(lastFailure) ?? [];
  const how = status === undefined
    ? `failed on the other side: ${lastFailure}`
    : `was answered ${status} by the other side`;
  return failures > 1
    ? `the last ${failures} ${unit} failed, the last of them ${how}`
    : `the last ${unit === "requests" ? "request" : "connection"} ${how}`;
}
