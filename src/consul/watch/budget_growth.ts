/**
 * Growth of a budget beyond its start: in steps, while watches want a long poll and the agent has room. An
 * agent counts the connections of a client address, whichever process has them, and refuses everything
 * beyond 200. So the connections of the whole host are counted: growth ends well before that limit, and a
 * proxy that has grown gives connections back when others need them.
 *
 * @module
 */

import type { Random, Timer } from "../../base/mod.ts";
import type { CommonDeps } from "../model/consul.ts";

export interface GrowthOptions {
  /** The budget never exceeds it. */
  readonly limit: number;
  readonly random: Random;
  /** Connections that the agent counts for this host; undefined: not known, so the budget does not grow. */
  countOfHost(): Promise<number | undefined>;
}

interface GrowingBudget {
  readonly limit: number;
  /** Watches without a long poll that would take one. */
  readonly wanted: number;
  setLimit(limit: number): void;
}

interface GrowthDeps extends Pick<CommonDeps, "clock" | "log"> {
  /** Connections at the start, which are never given back. */
  readonly start: number;
  readonly budget: GrowingBudget;
}

/** Connections of a host: growth ends at the first number, and is given back from the second on. */
const ROOM_ENDS = 120;
const CROWDED = 130;
/** Proxies that start together, as on a host that boots, all have their start before one grows. */
const FIRST_MS = 10_000;
/** Steps are small and apart, so that proxies which grow together see each other. */
const STEP_LIMIT = 16;
const STEP_MS = 3_000;
/** A budget without wishes only looks whether other proxies, which may all start at once, need some. */
const WATCH_MS = 5_000;
/** After a refusal growth rests, and then ends at three quarters of that limit. */
const REST_MS = 60_000;
const LOWERED_MS = 600_000;

export class BudgetGrowth {
  readonly #options: GrowthOptions;
  readonly #deps: GrowthDeps;
  #timer: Timer | undefined;
  #restsUntilMs = -Infinity;
  #lowered = { limit: Infinity, untilMs: -Infinity };
  #hasLooked = false;
  #closed = false;

  constructor(options: GrowthOptions, deps: GrowthDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The budget, or the demand of the watches, has changed. */
  look(): void {
    const { budget, start, clock } = this.#deps;
    if (this.#closed || this.#timer) return;
    const grows = budget.wanted > 0 && budget.limit < this.#options.limit;
    // A budget that was halved grows back by itself first.
    if (budget.limit < start || (!grows && budget.limit === start)) return;
    const restMs = Math.max(0, this.#restsUntilMs - clock.monotonic());
    const stepMs = this.#hasLooked ? STEP_MS : FIRST_MS;
    const waitMs = (grows ? stepMs + restMs : WATCH_MS) * (0.75 + 0.5 * this.#options.random());
    this.#timer = clock.after(waitMs, () => void this.#step());
  }

  /** The agent refused for load while the budget was `limit`. */
  refused(limit: number): void {
    const nowMs = this.#deps.clock.monotonic();
    this.#restsUntilMs = nowMs + REST_MS;
    this.#lowered = { limit: Math.floor(limit * 3 / 4), untilMs: nowMs + LOWERED_MS };
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #step(): Promise<void> {
    const { budget, start, log, clock } = this.#deps;
    const { limit: before } = budget;
    const ofHost = await this.#options.countOfHost().catch(() => undefined);
    this.#timer = undefined;
    this.#hasLooked = true;
    // Without a count other processes may have all that the agent grants.
    if (ofHost === undefined) this.#restsUntilMs = clock.monotonic() + REST_MS;
    // A refusal changed the limit meanwhile.
    if (this.#closed || ofHost === undefined || budget.limit !== before) return this.look();
    const after = Math.max(start, this.#limitFor(ofHost));
    if (after !== before) {
      const fields = { from: before, to: after, of_host: ofHost };
      if (after > before) log.info("agent has room, budget grown", fields);
      else log.info("others need the agent, budget lowered", fields);
      budget.setLimit(after);
    }
    this.look();
  }

  #limitFor(ofHost: number): number {
    const { clock, budget: { limit, wanted } } = this.#deps;
    if (ofHost >= CROWDED) return Math.floor(limit * ROOM_ENDS / ofHost);
    const lowered = clock.monotonic() < this.#lowered.untilMs ? this.#lowered.limit : Infinity;
    const most = Math.min(this.#options.limit, lowered);
    // Half of the rest, by our share of the connections: the others may be about to take theirs.
    const share = Math.min(1, limit / Math.max(1, ofHost));
    const room = Math.floor((ROOM_ENDS - ofHost) / 2 * share);
    const more = Math.min(wanted, room, STEP_LIMIT, most - limit);
    return limit + Math.max(0, more);
  }
}
