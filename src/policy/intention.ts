/**
 * One intention: may this source reach our service. The list that Consul's `intentions/match` gives
 * for our service is kept in Consul's order: precedence first, and the first that covers a source
 * decides (`consul` reference 4.2, 4.3).
 *
 * @module
 */

import type { ServiceId } from "../identity/mod.ts";

/** What an intention says about a source it covers. */
export type IntentionAction =
  | "allow"
  | "deny"
  /** It has L7 permissions: no statement at L4, which Consul's authorize treats as deny. */
  | "permissions";

/** Plain data, sent between threads. `"*"` in `name`, `namespace` or `partition` covers any. */
export interface Intention {
  /** How logs name it: `default/web => default/db (precedence 9, deny)`. */
  readonly rule: string;
  readonly source: {
    readonly name: string;
    readonly namespace: string;
    readonly partition: string;
    /** Cluster peer the source lives in; `""` is this cluster. */
    readonly peer: string;
  };
  readonly action: IntentionAction;
  readonly precedence: number;
}

/** Does this intention speak about `source`? Names compare in lower case, as Consul does. */
export function covers(intention: Intention, source: ServiceId): boolean {
  const { name, namespace, partition, peer } = intention.source;
  // A source in a peer has another trust domain; nothing of that kind gets past our chain check.
  return peer === "" &&
    matchesPart(name, source.service) &&
    matchesPart(namespace, source.namespace) &&
    matchesPart(partition, source.partition);
}

function matchesPart(pattern: string, value: string): boolean {
  return pattern === "*" || pattern.toLowerCase() === value.toLowerCase();
}
