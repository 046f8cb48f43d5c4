/**
 * Judges readiness on request and every few seconds, remembers which listeners were up, and reports
 * changes.
 *
 * @module
 */

import { type Health, mergeListeners } from "../../admin/mod.ts";
import { type Clock, type Log, messageOf, type Timer } from "../../base/mod.ts";
import type { ListenerView } from "../../proxy/mod.ts";
import { everUpOf, judgeReadiness, type ReadinessFacts } from "./judge_readiness.ts";
import type { DataPlane } from "../workers/plane.ts";

export interface ReadinessOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** `all`: every listener that was ever up must be; `any`: one is enough. */
  readonly wanted: "any" | "all";
  facts(): ReadinessFacts;
  /** `undefined` until the plane exists. */
  plane(): Pick<DataPlane, "listeners" | "stuck"> | undefined;
  /** Called when readiness changes, except by draining. */
  onChange(reasons: readonly string[]): void;
  /** Ends the periodic look. */
  readonly signal: AbortSignal;
}

/** Certificates expire without any event. */
const LOOK_MS = 5_000;

export class Readiness {
  readonly #options: ReadinessOptions;
  #everUp: ReadonlySet<string> = new Set();
  #seen: ReadonlyMap<string, ListenerView> = new Map();
  #isReady = false;
  #wasReady = false;
  #timer: Timer | undefined;

  constructor(options: ReadinessOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#timer?.cancel(), { once: true });
  }

  /** Looks now, and at an interval from then on. */
  async watch(): Promise<void> {
    const { clock, log, signal } = this.#options;
    this.#timer?.cancel();
    try {
      await this.look();
    } catch (error) {
      log.error("readiness not looked at", { error: messageOf(error) });
    }
    this.#timer?.cancel();
    if (!signal.aborted) this.#timer = clock.after(LOOK_MS, () => void this.watch());
  }

  async look(): Promise<Health> {
    const plane = this.#options.plane();
    const [paths = [], stuck = []] = await Promise.all([plane?.listeners(), plane?.stuck()]);
    // Without an answer in time, the last state holds.
    if (paths.length > 0) {
      const listeners = mergeListeners(
        paths.map((open) => open.filter((one) => !isBeingBound(one))),
      );
      this.#seen = new Map(listeners.map((listener) => [listener.name, listener]));
    }
    const facts = this.#options.facts();
    const health = judgeReadiness(facts, {
      listeners: this.#seen,
      stuck,
      wanted: this.#options.wanted,
      everUp: this.#everUp,
      wasReady: this.#wasReady,
    });
    if (facts.snapshot) this.#everUp = everUpOf(facts.snapshot, this.#seen, this.#everUp);
    const isReady = health.notReady.length === 0;
    if (isReady !== this.#isReady && !facts.draining) {
      this.#isReady = isReady;
      this.#wasReady ||= isReady;
      this.#options.onChange(health.notReady);
    }
    return health;
  }
}

function isBeingBound({ state, error }: ListenerView): boolean {
  return state === "failed" && error === "";
}
