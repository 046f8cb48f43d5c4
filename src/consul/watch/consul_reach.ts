/**
 * Events of the connections to Consul that concern all watches: a connection broke (every index is worthless,
 * and the default policy may have changed), or Consul answers again (watches need not sleep on).
 *
 * @module
 */

/** `lost`: a connection broke. `restored`: Consul answers again. `moved`: both, with another server or token. */
type ReachEvent = "lost" | "restored" | "moved";

export class ConsulReach {
  readonly #listeners = {
    lost: new Set<() => void>(),
    restored: new Set<() => void>(),
    moved: new Set<() => void>(),
  };
  /** Changes with every broken connection: an index from another epoch is forgotten. */
  epoch = 0;

  lost(): void {
    this.epoch++;
    this.#call("lost");
  }

  /** From now on requests go to another server, or carry another token. */
  moved(): void {
    this.lost();
    this.restored();
    this.#call("moved");
  }

  /** Consul answers after it could not be reached. */
  restored(): void {
    this.#call("restored");
  }

  /** Calls `fn` at every such event; returns how to stop. */
  on(event: ReachEvent, fn: () => void): () => void {
    this.#listeners[event].add(fn);
    return () => this.#listeners[event].delete(fn);
  }

  #call(event: ReachEvent): void {
    for (const fn of [...this.#listeners[event]]) fn();
  }
}
