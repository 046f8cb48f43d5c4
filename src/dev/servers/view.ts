/**
 * What one server answers stale reads from: what all servers share, or, on purpose, what was true a while
 * ago, or nothing yet as after a start.
 *
 * @module
 */

import type { Clock, Timer } from "../../base/mod.ts";
import type { World } from "../http/call.ts";

export class View {
  readonly #clock: Clock;
  readonly #truth: World;
  readonly #onReplaced = new Set<() => void>();
  #world: World;
  #empty: Timer | undefined;
  #lagMs = 0;
  #behind = new Set<Timer>();
  #stopCommits = () => {};

  constructor(truth: World, clock: Clock) {
    this.#truth = this.#world = truth;
    this.#clock = clock;
  }

  /** Replaced as a whole: who waits in an older one never hears of anything. */
  get world(): World {
    return this.#world;
  }

  onReplaced(fn: () => void): () => void {
    this.#onReplaced.add(fn);
    return () => void this.#onReplaced.delete(fn);
  }

  /** Shows what was true `lagMs` ago from now on; 0: what is true. */
  lag(lagMs: number): void {
    this.#stopLag();
    this.#lagMs = lagMs;
    if (lagMs === 0) return this.#show(this.#truth);
    this.#show(copyOf(this.#truth));
    this.#stopCommits = this.#truth.state.store.onCommit(() => {
      const timer = this.#clock.after(this.#lagMs, () => {
        this.#behind.delete(timer);
        if (!this.#empty) this.#show(copyOf(this.#truth));
      });
      this.#behind.add(timer);
    });
  }

  /** Shows `nothing` for so long. */
  beginEmpty(nothing: World, forMs: number): void {
    this.#empty?.cancel();
    this.#show(nothing);
    this.#empty = this.#clock.after(forMs, () => {
      this.#empty = undefined;
      this.lag(this.#lagMs);
    });
  }

  stop(): void {
    this.#empty?.cancel();
    this.#empty = undefined;
    this.#stopLag();
    this.#world = this.#truth;
  }

  #stopLag(): void {
    this.#stopCommits();
    for (const timer of this.#behind) timer.cancel();
    this.#behind = new Set();
  }

  #show(world: World): void {
    this.#world = world;
    for (const fn of [...this.#onReplaced]) fn();
  }
}

/** Catalog and config entries as they are now; the rest is shared. */
function copyOf(world: World): World {
  const { state } = world;
  const store = state.store.copy();
  const catalog = state.catalog.copy(store);
  const config = state.config.copy(store);
  return { ...world, state: { ...state, store, catalog, config } };
}
