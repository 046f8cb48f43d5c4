/**
 * Two limits in time. Endpoints whose list turned empty stay for a while, dialled only when failover has
 * nothing either: a stopping agent empties its instances for everyone (consul_live 10.1), and a dial
 * still has to prove its identity. Data that is wanted but not needed is waited for, but not for ever.
 *
 * @module
 */

import type { TargetPart } from "../../snapshot/mod.ts";
import type { TargetContent } from "./targets.ts";

interface LastResortOptions {
  readonly monotonicMs: number;
  readonly lastResortMs: number;
}

/** A pass over all targets; {@link untilMs} is an argument of the next pass. */
export class LastResort {
  readonly untilMs = new Map<string, number>();
  /** When (monotonic) the first one ends. */
  dueMs: number | undefined;
  readonly #before: ReadonlyMap<string, number>;
  readonly #options: LastResortOptions;

  constructor(before: ReadonlyMap<string, number>, options: LastResortOptions) {
    this.#before = before;
    this.#options = options;
  }

  /** `content`, whose list has just been answered empty, with what there was before. */
  ofEmpty(content: TargetContent, previous: TargetPart | undefined): TargetContent {
    const turnedEmpty = previous !== undefined && previous.endpoints.length > 0;
    const lastResort = turnedEmpty ? previous.endpoints : previous?.lastResort ?? [];
    if (lastResort.length === 0 || !this.#keeps(content.key, turnedEmpty)) return content;
    // The identities of a prepared query come from its instances, and now it has none.
    const spiffeUris = content.spiffeUris.length > 0
      ? content.spiffeUris
      : previous?.spiffeUris ?? [];
    return { ...content, spiffeUris, lastResort };
  }

  /** `previous` as it is while nothing new is known of it, except that its last resort still ends. */
  ofUnanswered(previous: TargetPart): TargetContent {
    const { version: _, ...content } = previous;
    if (content.lastResort.length === 0 || this.#keeps(content.key, false)) return content;
    return { ...content, lastResort: [] };
  }

  #keeps(key: string, starts: boolean): boolean {
    const { monotonicMs, lastResortMs } = this.#options;
    // A last resort without a start came with a restored snapshot: it starts now.
    const before = starts ? undefined : this.#before.get(key);
    const until = before ?? monotonicMs + lastResortMs;
    if (until <= monotonicMs) return false;
    this.untilMs.set(key, until);
    this.dueMs = earliest(this.dueMs, until);
    return true;
  }
}

/** Measures how long data that is wanted has been missing. */
export class AbsenceTimer {
  readonly since = new Map<string, number>();
  dueMs: number | undefined;
  readonly #before: ReadonlyMap<string, number>;
  readonly #options: { readonly monotonicMs: number; readonly graceMs: number };

  constructor(
    before: ReadonlyMap<string, number>,
    options: { readonly monotonicMs: number; readonly graceMs: number },
  ) {
    this.#before = before;
    this.#options = options;
  }

  /** Notes that `what` is missing. True: it is still waited for. */
  missing(what: string): boolean {
    const { monotonicMs, graceMs } = this.#options;
    const since = this.#before.get(what) ?? monotonicMs;
    this.since.set(what, since);
    if (monotonicMs - since >= graceMs) return false;
    this.dueMs = earliest(this.dueMs, since + graceMs);
    return true;
  }
}

export function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}
