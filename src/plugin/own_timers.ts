/**
 * Timers of the runtime, as the code of a plugin from a file has them: what it starts ends with its
 * generation, whether it stops it or not.
 *
 * @module
 */

type Callback = (...given: unknown[]) => unknown;
type Timer = ReturnType<typeof setTimeout>;

/** Whoever has so many has forgotten them. */
const MAX_TIMERS = 1_000;

export class OwnTimers {
  readonly #running = new Set<Timer>();

  /** By the names that code calls them by. */
  readonly globals: Readonly<Record<string, unknown>> = {
    setTimeout: (callback: Callback, ms?: number, ...given: unknown[]) => {
      this.#checkRoom();
      const timer = setTimeout(() => {
        this.#running.delete(timer);
        callback(...given);
      }, ms);
      this.#running.add(timer);
      return timer;
    },
    setInterval: (callback: Callback, ms?: number, ...given: unknown[]) => {
      this.#checkRoom();
      const timer = setInterval(callback, ms, ...given);
      this.#running.add(timer);
      return timer;
    },
    clearTimeout: (timer: Timer | undefined) => this.#clear(timer),
    clearInterval: (timer: Timer | undefined) => this.#clear(timer),
  };

  #checkRoom(): void {
    if (this.#running.size >= MAX_TIMERS) throw new RangeError(`more than ${MAX_TIMERS} timers`);
  }

  #clear(timer: Timer | undefined): void {
    if (timer !== undefined) this.#running.delete(timer);
    clearTimeout(timer);
  }

  /** How many there were. */
  stop(): number {
    const count = this.#running.size;
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
    return count;
  }
}
