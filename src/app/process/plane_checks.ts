/**
 * Tasks that the main thread repeats on the data plane: it binds listeners again whose address was in use, and
 * checks every few seconds whether all data paths answer, and which upstreams carry traffic.
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

const BEAT_MS = 5_000;
/** Workers that have not all answered for this long are not healthy. */
const SILENCE_MS = 20_000;

interface HeartbeatOptions {
  readonly clock: Clock;
  readonly plane: Pick<DataPlane, "used">;
  /** Number of data paths that must answer. */
  readonly paths: number;
  readonly onUsed: (upstreamIds: readonly string[]) => void;
  readonly signal: AbortSignal;
}

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #lastMs: number;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#lastMs = options.clock.monotonic();
    this.#schedule();
  }

  get healthy(): boolean {
    return this.#options.clock.monotonic() - this.#lastMs < SILENCE_MS;
  }

  #schedule(): void {
    const { clock, signal } = this.#options;
    if (signal.aborted) return;
    clock.after(BEAT_MS, () => this.#beat().finally(() => this.#schedule()));
  }

  async #beat(): Promise<void> {
    const { plane, paths, clock, onUsed } = this.#options;
    const answers = await plane.used();
    if (answers.length === paths) this.#lastMs = clock.monotonic();
    const used = new Set(answers.flat());
    if (used.size > 0) onUsed([...used]);
  }
}
