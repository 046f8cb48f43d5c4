/**
 * Timers for the code of a plugin from a file. They end with the plugin's generation, even if the plugin
 * does not stop them.
 *
 * @module
 */

type Callback = (...given: unknown[]) => unknown;
type Timer = ReturnType<typeof setTimeout>;

/** A plugin with so many timers leaks them. */
const MAX_TIMERS = 1_000;

export class OwnTimers {
  readonly #running = new Set<Timer>();

  /** The global functions that the code calls, by name. */
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

  /** Stops all timers; returns how many were running. */
  stop(): number {
    const count = this.#running.size;
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
    return count;
  }
}
