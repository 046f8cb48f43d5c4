/**
 * Looks after the data plane every few seconds: do all workers answer, and which upstreams carry
 * traffic? The supervisor's watchdog rests on the first, the agent's connections go by the second.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { DataView } from "../../proxy/mod.ts";
import type { DataPlane } from "../data_plane/plane.ts";

const BEAT_MS = 5_000;
/** Workers that have not all answered for this long are not healthy. */
const SILENCE_MS = 20_000;

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly plane: DataPlane;
  /** Data paths that must answer. */
  readonly paths: number;
  readonly onUsed: (upstreamIds: readonly string[]) => void;
  readonly signal: AbortSignal;
}

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #opened: ReadonlyMap<string, number> = new Map();
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
    const views = await plane.views({ connections: false });
    if (views.length === paths) this.#lastMs = clock.monotonic();
    const used = this.#usedSince(views);
    if (used.length > 0) onUsed(used);
  }

  /** Outbound listeners that accepted connections since the last look, or hold some. */
  #usedSince(views: readonly DataView[]): readonly string[] {
    const used: string[] = [];
    const totals = new Map<string, number>();
    for (const { name, labels, value } of views.flatMap(({ samples }) => samples)) {
      const { direction, listener } = labels;
      if (direction !== "outbound" || listener === undefined) continue;
      if (name === "connections_active" && value > 0) used.push(listener);
      if (name !== "connections_opened_total") continue;
      totals.set(listener, (totals.get(listener) ?? 0) + value);
    }
    for (const [listener, total] of totals) {
      if (total !== (this.#opened.get(listener) ?? 0)) used.push(listener);
    }
    // Those of upstreams that were removed are not kept.
    this.#opened = totals;
    return used;
  }
}
