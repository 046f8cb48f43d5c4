/**
 * When a server that answers is left all the same: because it refuses for load, says what nobody can
 * read, or has no leader while others may have one. A fleet that left at the first sign, and all at once,
 * would carry the trouble from server to server. So failures are a reason only when they go on for some
 * seconds, more or fewer by chance, and who has just left stays where he is for a minute or two.
 *
 * @module
 */

import type { Clock, Random } from "../../base/mod.ts";

/** Failures go on while no two are further apart. */
const GAP_MS = 10_000;
const HOLD_MS = 2_000;
const HOLD_SPREAD_MS = 8_000;
/** So old may be what a server answers from without its leader; elections are over sooner. */
const SILENCE_LIMIT_MS = 15_000;
const STAY_MS = 60_000;

export class UnfitServer {
  readonly #clock: Clock;
  readonly #random: Random;
  /** The last failure of a series, and when the series has gone on for long enough. */
  #series: { lastMs: number; readonly untilMs: number } | undefined;
  #stayUntilMs = -Infinity;

  constructor(deps: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = deps.clock;
    this.#random = deps.random;
  }

  /** Whether the server that refused for load, or said what nobody can read, is to be left now. */
  failed(): boolean {
    const nowMs = this.#clock.monotonic();
    const series = this.#series;
    if (!series || nowMs - series.lastMs > GAP_MS) {
      const untilMs = nowMs + HOLD_MS + HOLD_SPREAD_MS * this.#random();
      this.#series = { lastMs: nowMs, untilMs };
      return false;
    }
    series.lastMs = nowMs;
    return nowMs >= series.untilMs && this.#mayLeave(nowMs);
  }

  /** Whether a server that has not heard of its leader for so long is to be left now. */
  answered(silenceMs: number): boolean {
    return silenceMs > SILENCE_LIMIT_MS && this.#mayLeave(this.#clock.monotonic());
  }

  #mayLeave(nowMs: number): boolean {
    if (nowMs < this.#stayUntilMs) return false;
    this.#stayUntilMs = nowMs + STAY_MS * (1 + this.#random());
    return true;
  }
}
