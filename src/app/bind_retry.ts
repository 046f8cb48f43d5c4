/**
 * Listeners whose address was taken are tried again until they are bound; which ones are not, and why,
 * is kept for those who ask whether the proxy is ready.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type Timer } from "../base/mod.ts";
import type { DataPlane } from "./plane.ts";

export interface BindRetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly plane: Pick<DataPlane, "retryFailed" | "views">;
  /** Ends the trying. */
  readonly signal: AbortSignal;
  /** All are bound. */
  readonly onBound: () => void;
}

const RETRY_MS = 1_000;

export class BindRetry {
  readonly #options: BindRetryOptions;
  #unbound: readonly string[] = ["not all listeners are bound"];
  #timer: Timer | undefined;

  constructor(options: BindRetryOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#timer?.cancel(), { once: true });
  }

  /** What keeps traffic out, for people; empty: nothing. */
  get unbound(): readonly string[] {
    return this.#unbound;
  }

  /** To be called after each applied snapshot. Never rejects. */
  async look(): Promise<void> {
    const { plane, log, onBound } = this.#options;
    try {
      const bound = await plane.retryFailed();
      this.#unbound = bound ? [] : await this.#reasons();
      if (bound) return onBound();
    } catch (error) {
      log.error("listeners not looked at", { error: messageOf(error) });
    }
    this.#again();
  }

  /** One timer, however many snapshots come meanwhile. */
  #again(): void {
    const { clock, signal } = this.#options;
    if (signal.aborted || this.#timer) return;
    this.#timer = clock.after(RETRY_MS, () => {
      this.#timer = undefined;
      if (!signal.aborted) void this.look();
    });
  }

  async #reasons(): Promise<readonly string[]> {
    const views = await this.#options.plane.views({ connections: false });
    const failed = views.flatMap(({ listeners }) => listeners)
      .filter(({ state }) => state === "failed")
      .map(({ name, error }) => `listener ${name} is not bound: ${error}`);
    return failed.length > 0 ? [...new Set(failed)] : ["not all listeners are bound"];
  }
}
