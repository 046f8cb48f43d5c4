/**
 * Checks every few seconds whether all data paths answer, for the supervisor's watchdog, and which upstreams
 * carry traffic, for the agent's connections. A worker reports the first use of an idle upstream at once.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { DataPlane } from "../workers/plane.ts";

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
