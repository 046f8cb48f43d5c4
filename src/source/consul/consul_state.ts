/** The last good answers of the agent, from which a snapshot is assembled. @module */

import type {
  Defaults,
  Instance,
  Intentions,
  Leaf,
  Mesh,
  QueryResult,
  Registration,
  Roots,
} from "../../consul/mod.ts";
import type { UpstreamPlan } from "./plan.ts";
import type { JwtProviders } from "./token_providers.ts";
import type { Refusal } from "../../snapshot/mod.ts";

/** The last good value of every watch; absent: never answered. */
export interface ConsulState {
  readonly registration: Registration | undefined;
  readonly leaf: Leaf | undefined;
  readonly roots: Roots | undefined;
  readonly intentions: Intentions | undefined;
  readonly defaultAction: "allow" | "deny" | undefined;
  /** `null`: there is no such entry. */
  readonly mesh: Mesh | null | undefined;
  /** `null`: there is no such entry. */
  readonly proxyDefaults: Defaults | null | undefined;
  readonly serviceDefaults: Defaults | null | undefined;
  /** Providers that intentions name. */
  readonly jwtProviders: JwtProviders;
  /** By upstream id; a declared upstream without a plan is pending. */
  readonly plans: ReadonlyMap<string, UpstreamPlan>;
  /** By `healthKey()`. */
  readonly instances: ReadonlyMap<string, readonly Instance[]>;
  /** By upstream id. */
  readonly queries: ReadonlyMap<string, QueryResult>;
  /** Why {@link instances} or {@link queries} cannot be watched at present, by the same keys. */
  readonly unheard: ReadonlyMap<string, string>;
  /** Answers that were not taken in the first place; their last good values are above. */
  readonly refused: readonly Refusal[];
}
