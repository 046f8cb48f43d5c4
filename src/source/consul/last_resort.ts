/**
 * What becomes of endpoints whose list turned empty: they stay for a while, dialled only when failover
 * has nothing either. A stopping agent empties its instances for everyone (consul_live 10.1), and a dial
 * still has to prove its identity.
 *
 * @module
 */

import { earliest } from "./absence_timer.ts";
import type { TargetPart } from "../../snapshot/mod.ts";
import type { TargetContent } from "./targets.ts";

export interface LastResortOptions {
  readonly monotonicMs: number;
  readonly lastResortMs: number;
}

/** One pass over all targets; {@link untilMs} is what the next pass must be given. */
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
    // A prepared query's identities are those of its instances, and now it has none.
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
    // A last resort that nobody remembers came with a restored snapshot: it starts now.
    const before = starts ? undefined : this.#before.get(key);
    const until = before ?? monotonicMs + lastResortMs;
    if (until <= monotonicMs) return false;
    this.untilMs.set(key, until);
    this.dueMs = earliest(this.dueMs, until);
    return true;
  }
}
