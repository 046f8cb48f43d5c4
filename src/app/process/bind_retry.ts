/**
 * Binds listeners again whose address was in use.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type Timer } from "../../base/mod.ts";
import type { DataPlane } from "../workers/plane.ts";

interface BindRetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly plane: Pick<DataPlane, "retryFailed">;
  /** Ends the tries. */
  readonly signal: AbortSignal;
  /** Called after each try. */
  readonly onTried: () => Promise<void>;
  /** Describes another proxy on this machine with the same ports; `undefined`: none. Never rejects. */
  findRival(): Promise<string | undefined>;
}

const RETRY_MS = 1_000;
/** A rival is looked for once in this many tries. */
const RIVAL_TRIES = 10;

export class BindRetry {
  readonly #options: BindRetryOptions;
  #timer: Timer | undefined;
  #failedTries = 0;
  #rival = "";

  constructor(options: BindRetryOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#timer?.cancel(), { once: true });
  }

  /** Describes the proxy that has the ports; `""`: none is known, or all are bound. */
  get rival(): string {
    return this.#rival;
  }

  /** Called after each applied snapshot. Never rejects. */
  async look(): Promise<void> {
    const { plane, log, onTried } = this.#options;
    try {
      const bound = await plane.retryFailed();
      if (bound) [this.#failedTries, this.#rival] = [0, ""];
      await onTried();
      if (bound) return;
      await this.#lookForRival();
    } catch (error) {
      log.error("listeners not looked at", { error: messageOf(error) });
    }
    this.#again();
  }

  /** A rival is logged once. */
  async #lookForRival(): Promise<void> {
    const { log, findRival } = this.#options;
    if (this.#failedTries++ % RIVAL_TRIES !== 0) return;
    const found = await findRival() ?? "";
    if (found !== this.#rival && found !== "") {
      log.warn("listeners wait for another proxy", { reason: found });
    }
    this.#rival = found;
  }

  /** All snapshots that come meanwhile share one timer. */
  #again(): void {
    const { clock, signal } = this.#options;
    if (signal.aborted || this.#timer) return;
    this.#timer = clock.after(RETRY_MS, () => {
      this.#timer = undefined;
      if (!signal.aborted) void this.look();
    });
  }
}
