/**
 * A value that changes and those who want to know. Subscribers are told after the value is in place;
 * one that throws does not keep the others from hearing.
 *
 * @module
 */

export class Watch<T> {
  #value: T;
  readonly #subscribers = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    this.#value = value;
    let first: unknown;
    let failed = false;
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(value);
      } catch (error) {
        first ??= error;
        failed = true;
      }
    }
    if (failed) throw first;
  }

  /** Calls `fn` on every later value; returns how to stop. */
  subscribe(fn: (value: T) => void): () => void {
    this.#subscribers.add(fn);
    return () => this.#subscribers.delete(fn);
  }
}
