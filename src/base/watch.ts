/**
 * A value that changes and those who want to know. Subscribers are told after the value is in place;
 * one that throws does not keep the others from hearing. When one of them sets the next value, the rest
 * hear only that: nobody ends with an older one.
 *
 * @module
 */

export class Watch<T> {
  #value: T;
  #generation = 0;
  readonly #subscribers = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    this.#value = value;
    const generation = ++this.#generation;
    let first: unknown;
    let failed = false;
    for (const subscriber of [...this.#subscribers]) {
      if (this.#generation !== generation) break;
      if (!this.#subscribers.has(subscriber)) continue;
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
