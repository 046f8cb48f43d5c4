/**
 * What all watches of one agent learn together: that a connection to it broke (so every index is worth
 * nothing, and the default policy may be another) and that it answers again (so nobody need sleep on).
 *
 * @module
 */

export class AgentLink {
  readonly #sleepers = new Set<() => void>();
  readonly #onLost = new Set<() => void>();
  readonly #onMoved = new Set<() => void>();
  #epoch = 0;

  /** Changes with every broken connection: an index from another epoch is forgotten. */
  get epoch(): number {
    return this.#epoch;
  }

  lost(): void {
    this.#epoch++;
    for (const listener of [...this.#onLost]) listener();
  }

  /** Another server is asked from now on, or with another token. */
  moved(): void {
    this.lost();
    this.restored();
    for (const wake of [...this.#onMoved]) wake();
  }

  /** The agent answers after it could not be reached. */
  restored(): void {
    for (const wake of [...this.#sleepers]) wake();
  }

  /** Calls `fn` whenever a connection breaks; returns how to stop. */
  onLost(fn: () => void): () => void {
    this.#onLost.add(fn);
    return () => this.#onLost.delete(fn);
  }

  /** Calls `wake` at each {@link moved}; returns how to stop. */
  onMoved(wake: () => void): () => void {
    this.#onMoved.add(wake);
    return () => this.#onMoved.delete(wake);
  }

  /** Calls `wake` at each {@link restored}; returns how to stop. */
  onRestored(wake: () => void): () => void {
    this.#sleepers.add(wake);
    return () => this.#sleepers.delete(wake);
  }
}
