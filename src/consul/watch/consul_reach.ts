/**
 * Events of the connections to Consul that concern all watches: a connection broke (every index is worthless,
 * and the default policy may have changed), or Consul answers again (watches need not sleep on).
 * @module
 */

export class ConsulReach {
  readonly #onRestored = new Set<() => void>();
  readonly #onLost = new Set<() => void>();
  readonly #onMoved = new Set<() => void>();
  #epoch = 0;

  /** Changes with every broken connection: an index from another epoch is forgotten. */
  get epoch(): number {
    return this.#epoch;
  }

  lost(): void {
    this.#epoch++;
    callAll(this.#onLost);
  }

  /** From now on requests go to another server, or carry another token. */
  moved(): void {
    this.lost();
    this.restored();
    callAll(this.#onMoved);
  }

  /** Consul answers after it could not be reached. */
  restored(): void {
    callAll(this.#onRestored);
  }

  /** Calls `fn` whenever a connection breaks; returns how to stop. */
  onLost(fn: () => void): () => void {
    return added(this.#onLost, fn);
  }

  /** Calls `fn` at the next {@link moved}; returns how to stop. */
  onMoved(fn: () => void): () => void {
    return added(this.#onMoved, fn);
  }

  /** Calls `fn` at the next {@link restored} or {@link moved}; returns how to stop. */
  onRestored(fn: () => void): () => void {
    return added(this.#onRestored, fn);
  }
}

function callAll(listeners: ReadonlySet<() => void>): void {
  for (const fn of [...listeners]) fn();
}

function added(listeners: Set<() => void>, fn: () => void): () => void {
  listeners.add(fn);
  return () => listeners.delete(fn);
}
