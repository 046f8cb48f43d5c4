/** A watch's place in the connection budget: its own long poll, or its turn with a short one. @module */

import { type Clock, ProxyError } from "../../base/mod.ts";

/** Short polls go out together, this often; a watch that is in use takes every turn. */
const TURN_MS = 900;
/** Turns between polls of a watch that is not in use, and of one in use after a refusal for load. */
const IDLE_TURNS = 10;
const EASED_TURNS = 3;
export const USED_LATELY_MS = 60_000;

type PollMode = "long" | "short";

/** The order in which watches get a long poll. */
export type PollPriority = "critical" | "first" | "middle" | "last";

/** The right to make requests, one after the other, until released. */
export interface PollTurn {
  readonly mode: PollMode;
  /** Aborts when the watch stops, or when its long poll goes to another watch. */
  readonly signal: AbortSignal;
  release(): void;
}

interface SlotDeps {
  readonly preference: PollPriority;
  readonly clock: Clock;
  /** Spreads the turns of slots that are not in use. */
  readonly phase: number;
  /** The agent refused for load lately. */
  readonly isEased: () => boolean;
  readonly wait: (due: () => number, signal: AbortSignal) => Promise<() => void>;
  /** `isNew`: the slot was idle before, so its next turn is due now. */
  readonly used: (isNew: boolean) => void;
  readonly left: () => void;
}

export class PollSlot {
  readonly #deps: SlotDeps;
  readonly #stop = new AbortController();
  /** Ends the wait for a lane, or the long poll, of the present mode. */
  #change = new AbortController();
  mode: PollMode = "short";
  /** Mode of the turn that runs now. */
  holding: PollMode | undefined;
  lastUsedMs = -Infinity;
  #lastTurnMs = -Infinity;

  constructor(deps: SlotDeps) {
    this.#deps = deps;
  }

  get preference(): PollPriority {
    return this.#deps.preference;
  }

  /** Fails with `closed` once the slot is left. */
  async turn(): Promise<PollTurn> {
    for (;;) {
      if (this.#stop.signal.aborted) throw left();
      const change = this.#change.signal;
      const signal = AbortSignal.any([this.#stop.signal, change]);
      if (this.mode === "long") return this.#take("long", { signal, release: () => {} });
      try {
        const release = await this.#deps.wait(() => this.#dueMs(), signal);
        // A short poll ends soon by itself, so only stopping ends it early.
        return this.#take("short", { signal: this.#stop.signal, release });
      } catch (error) {
        if (!change.aborted) throw error;
      }
    }
  }

  touch(): void {
    const isNew = !this.#isUsed();
    this.lastUsedMs = this.#deps.clock.monotonic();
    if (this.mode === "short") this.#deps.used(isNew);
  }

  leave(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#deps.left();
  }

  setMode(mode: PollMode): void {
    if (mode === this.mode) return;
    this.mode = mode;
    const before = this.#change;
    this.#change = new AbortController();
    // The default reason would be an error with a stack.
    before.abort("changed");
  }

  #dueMs(): number {
    if (this.#lastTurnMs === -Infinity) return -Infinity;
    const turn = Math.floor(this.#lastTurnMs / TURN_MS);
    const { phase, isEased } = this.#deps;
    if (this.#isUsed()) return (turn + (isEased() ? EASED_TURNS : 1)) * TURN_MS;
    return (turn + IDLE_TURNS - (turn + phase) % IDLE_TURNS) * TURN_MS;
  }

  #isUsed(): boolean {
    return this.#deps.clock.monotonic() - this.lastUsedMs < USED_LATELY_MS;
  }

  #take(mode: PollMode, { signal, release }: Omit<PollTurn, "mode">): PollTurn {
    this.holding = mode;
    return {
      mode,
      signal,
      release: () => {
        this.holding = undefined;
        // After a turn that was cut short the next one need not wait.
        if (!signal.aborted) this.#lastTurnMs = this.#deps.clock.monotonic();
        release();
      },
    };
  }
}

/** The end of a wait whose watch is stopped. */
export function left(): ProxyError {
  return new ProxyError("closed", "The watch was stopped");
}
