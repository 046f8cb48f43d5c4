/** Repeated tasks on the data plane: binding listeners again, and its heartbeat. @module */

import { type Clock, type Log, messageOf, type Timer } from "../../base/mod.ts";
import type { DataPlane } from "../workers/plane.ts";

interface BindRetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly plane: Pick<DataPlane, "retryFailed">;
  readonly signal: AbortSignal;
  readonly onTried: () => Promise<void>;
  /** Describes another proxy on this machine with the same ports; `undefined`: none. Never rejects. */
  findRival(): Promise<string | undefined>;
}

const RETRY_MS = 1_000;
/** A rival is looked for once in this many tries. */
const RIVAL_TRIES = 10;

export interface BindRetry {
  /** Describes the proxy that has the ports; `""`: none is known, or all are bound. */
  rival(): string;
  /** Called after each applied snapshot. Never rejects. */
  look(): Promise<void>;
}

export function createBindRetry(options: BindRetryOptions): BindRetry {
  const { clock, log, plane, signal, onTried, findRival } = options;
  let timer: Timer | undefined;
  let failedTries = 0;
  let rival = "";
  signal.addEventListener("abort", () => timer?.cancel(), { once: true });
  /** A rival is logged once. */
  const lookForRival = async () => {
    if (failedTries++ % RIVAL_TRIES !== 0) return;
    const found = await findRival() ?? "";
    if (found !== rival && found !== "") {
      log.warn("listeners wait for another proxy", { reason: found });
    }
    rival = found;
  };
  const look = async () => {
    try {
      const bound = await plane.retryFailed();
      if (bound) [failedTries, rival] = [0, ""];
      await onTried();
      if (bound) return;
      await lookForRival();
    } catch (error) {
      log.error("listeners not looked at", { error: messageOf(error) });
    }
    // All snapshots that come meanwhile share one timer.
    if (signal.aborted || timer) return;
    timer = clock.after(RETRY_MS, () => {
      timer = undefined;
      if (!signal.aborted) void look();
    });
  };
  return { rival: () => rival, look };
}

const BEAT_MS = 5_000;
/** Workers that have not all answered for this long are not healthy. */
const SILENCE_MS = 20_000;

/** Says whether all data paths answer. `paths`: the number of those that must. */
export function startHeartbeat({ clock, plane, paths, onUsed, signal }: {
  readonly clock: Clock;
  readonly plane: Pick<DataPlane, "used">;
  readonly paths: number;
  readonly onUsed: (upstreamIds: readonly string[]) => void;
  readonly signal: AbortSignal;
}): () => boolean {
  let lastMs = clock.monotonic();
  const beat = async () => {
    const answers = await plane.used();
    if (answers.length === paths) lastMs = clock.monotonic();
    const used = new Set(answers.flat());
    if (used.size > 0) onUsed([...used]);
  };
  const schedule = () => {
    if (!signal.aborted) clock.after(BEAT_MS, () => beat().finally(schedule));
  };
  schedule();
  return () => clock.monotonic() - lastMs < SILENCE_MS;
}
