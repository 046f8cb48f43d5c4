/**
 * The data from which one server answers stale reads: the data that all servers share, or, on purpose,
 * the data of a while ago, or nothing yet as after a start.
 *
 * @module
 */

import type { Clock, Timer } from "../../../../src/base/mod.ts";
import { Catalog, CatalogNode } from "../../../../src/dev/catalog/catalog.ts";
import { ANY_WRITE, Store } from "../../../../src/dev/store.ts";
import { ConfigEntries } from "../../../../src/dev/entries/config_entries.ts";
import type { World } from "../../../../src/dev/world.ts";

export class View {
  readonly #clock: Clock;
  readonly #truth: World;
  readonly #onReplaced = new Set<() => void>();
  #world: World;
  #empty: Timer | undefined;
  #lagMs = 0;
  #lag = new AbortController();
  #behind = new Set<Timer>();

  constructor(truth: World, clock: Clock) {
    this.#truth = this.#world = truth;
    this.#clock = clock;
  }

  /** Replaced as a whole: a reader of an older one never wakes. */
  get world(): World {
    return this.#world;
  }

  onReplaced(fn: () => void): () => void {
    this.#onReplaced.add(fn);
    return () => void this.#onReplaced.delete(fn);
  }

  /** Shows the data of `lagMs` ago from now on; 0: the present data. */
  lag(lagMs: number): void {
    this.#stopLag();
    this.#lagMs = lagMs;
    if (lagMs === 0) return this.#show(this.#truth);
    this.#show(copyOf(this.#truth));
    void this.#follow(this.#lag.signal);
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

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#truth.store.change([ANY_WRITE], signal);
      const timer = this.#clock.after(this.#lagMs, () => {
        this.#behind.delete(timer);
        if (!this.#empty && !signal.aborted) this.#show(copyOf(this.#truth));
      });
      this.#behind.add(timer);
    }
  }

  #stopLag(): void {
    this.#lag.abort();
    this.#lag = new AbortController();
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
  const store = new Store(world.store);
  const catalog = new Catalog();
  for (const node of world.catalog.nodes.values()) {
    catalog.add(new CatalogNode(store, node.record, node));
  }
  return {
    ...world,
    store,
    catalog,
    config: new ConfigEntries(store, world.datacenter, world.config),
  };
}
