/**
 * The interface of all balancers.
 *
 * @module
 */

import type { EndpointRecord } from "./state.ts";

export type Excluded = ReadonlySet<unknown> | undefined;

export interface Balancer {
  /**
   * `members` are all endpoints and `usable` those not ejected. Both are replaced, never edited: the
   * same array means the same content, so tables made from `members` outlive ejections.
   */
  update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void;
  /** A usable endpoint outside `excluded`; `undefined`: there is none. */
  pick(hash: number | undefined, excluded: Excluded): EndpointRecord | undefined;
}
