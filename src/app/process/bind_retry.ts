/**
 * Listeners whose address was taken are tried again until they are bound.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type Timer } from "../../base/mod.ts";
import type { DataPlane } from "../data_plane/plane.ts";

export interface BindRetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly plane: Pick<DataPlane, "retryFailed">;
  /** Ends the trying. */
  readonly signal: AbortSignal;
  /** After each try. */
  readonly onTried: () => Promise<void>;
}

const RETRY_MS = 1_000;

export class BindRetry {
  readonly #options: BindRetryOptions;
  #timer: Timer | undefined;

  constructor(options: BindRetryOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#timer?.cancel(), { once: true });
  }

  /** To be called after each applied snapshot. Never rejects. */
  async look(): Promise<void> {
    const { plane, log, onTried } = this.#options;
    try {
      const bound = await plane.retryFailed();
      await onTried();
      if (bound) return;
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
}
