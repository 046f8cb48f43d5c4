/**
 * How a resolver wants its endpoints picked.
 *
 * @module
 */

import type { ChainBalancing, LoadBalancing } from "./compiled_chain.ts";

/** Envoy's default; fewer than two would not be a choice. */
const CHOICE_COUNT = 2;
const RING_MINIMUM = 1024;
const RING_MAXIMUM = 8_388_608;

/** Envoy's defaults where the resolver says nothing (or 0); `undefined` for a policy nobody knows. */
export function loadBalancing(balancing: ChainBalancing): LoadBalancing | undefined {
  switch (balancing.policy) {
    case "":
    case "round_robin":
      return { kind: "round_robin" };
    case "random":
      return { kind: "random" };
    case "maglev":
      return { kind: "maglev" };
    case "least_request":
      return {
        kind: "least_request",
        choiceCount: Math.max(balancing.choiceCount || CHOICE_COUNT, CHOICE_COUNT),
      };
    case "ring_hash": {
      const maximumSize = balancing.maximumRingSize || RING_MAXIMUM;
      const minimumSize = Math.min(balancing.minimumRingSize || RING_MINIMUM, maximumSize);
      return { kind: "ring_hash", minimumSize, maximumSize };
    }
    default:
      return undefined;
  }
}
