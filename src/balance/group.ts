/**
 * Endpoints that are balanced together: which of them are usable now, and the balancer that is kept
 * informed. A change of health costs O(n) once, when the next pick comes; a pick itself never searches
 * for healthy ones.
 *
 * @module
 */

import type { EndpointRecord, Excluded } from "./types.ts";
import type { Balancer } from "./balancer.ts";

export class Group {
  #balancer: Balancer;
  #members: readonly EndpointRecord[] = [];
  #usable: readonly EndpointRecord[] = [];
  /** The end of the first ejection, which changes the usable endpoints. */
  #returnMs = Infinity;
  #stale = false;

  constructor(balancer: Balancer) {
    this.#balancer = balancer;
  }

  get members(): readonly EndpointRecord[] {
    return this.#members;
  }

  get ejected(): number {
    return this.#members.reduce((count, { ejected }) => ejected ? count + 1 : count, 0);
  }

  setBalancer(balancer: Balancer): void {
    this.#balancer = balancer;
    this.#stale = true;
  }

  setMembers(members: readonly EndpointRecord[]): void {
    this.#members = members;
    this.#stale = true;
  }

  /** An ejection began. */
  invalidate(): void {
    this.#stale = true;
  }

  usable(nowMs: number): readonly EndpointRecord[] {
    if (this.#stale || nowMs >= this.#returnMs) this.#refresh(nowMs);
    return this.#usable;
  }

  pick(nowMs: number, hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    if (this.usable(nowMs).length === 0) return undefined;
    return this.#balancer.pick(hash, excluded);
  }

  firstEjected(nowMs: number, excluded: Excluded): EndpointRecord | undefined {
    if (this.usable(nowMs).length === this.#members.length) return undefined;
    let first: EndpointRecord | undefined;
    for (const record of this.#members) {
      if (!record.ejected || excluded?.has(record)) continue;
      if (!first || record.ejectedUntilMs < first.ejectedUntilMs) first = record;
    }
    return first;
  }

  #refresh(nowMs: number): void {
    this.#stale = false;
    this.#returnMs = Infinity;
    const usable: EndpointRecord[] = [];
    for (const record of this.#members) {
      if (record.ejected && nowMs >= record.ejectedUntilMs) record.ejected = false;
      if (record.ejected) this.#returnMs = Math.min(this.#returnMs, record.ejectedUntilMs);
      else usable.push(record);
    }
    this.#usable = usable;
    this.#balancer.update(this.#members, usable);
  }
}
