/**
 * Makes the balancer that a configuration names.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";
import type { Balancer } from "./contract.ts";
import { LeastRequest } from "./least_request.ts";
import { Maglev } from "./maglev.ts";
import { RandomChoice } from "./random.ts";
import { RingHash } from "./ring_hash.ts";
import { RoundRobin } from "./round_robin.ts";
import type { LoadBalancing } from "./types.ts";

export function createBalancer(balancing: LoadBalancing, random: Random): Balancer {
  switch (balancing.kind) {
    case "round_robin":
      return new RoundRobin(random);
    case "random":
      return new RandomChoice(random);
    case "least_request":
      return new LeastRequest(random, balancing.choiceCount);
    case "ring_hash":
      return new RingHash(random, balancing);
    case "maglev":
      return new Maglev(random);
  }
}

/** Whether a balancer made for `a` also serves `b`. */
export function sameBalancing(a: LoadBalancing, b: LoadBalancing): boolean {
  if (a.kind === "least_request") {
    return b.kind === "least_request" && a.choiceCount === b.choiceCount;
  }
  if (a.kind === "ring_hash") {
    return b.kind === "ring_hash" && a.minimumSize === b.minimumSize &&
      a.maximumSize === b.maximumSize;
  }
  return a.kind === b.kind;
}
