/**
 * Listeners that stay closed because their credentials could not be understood: a proxy without one of
 * them is not ready.
 *
 * @module
 */

import type { Registration } from "../../consul/mod.ts";
import { type CredentialPlans, listenerKey, refusedOf } from "./credential_plans.ts";
import { INBOUND_KEY, type Snapshot } from "../../snapshot/mod.ts";

/**
 * One line for each, with the reason. One of an ingress gateway does not count: its config entry is
 * for many teams, and the others' listeners serve.
 */
export function closedByRefusal(
  plans: CredentialPlans,
  registration: Registration,
  snapshot: Snapshot,
): readonly string[] {
  const keys = [...plans.upstreams, ...registration.ingress ? [] : plans.listeners]
    .filter(([id, key]) => key === "refused" && !snapshot.upstreams[id]).map(([id]) => id);
  if (plans.inbound === "refused" && !snapshot.inbound[INBOUND_KEY]) keys.push(INBOUND_KEY);
  return plans.refused
    .filter(({ what }) =>
      keys.some((key) => what === refusedOf(key) || what === refusedOf(listenerKey(key)))
    )
    .map(({ what, reason }) => `${what} that can be used: ${reason}`);
}
