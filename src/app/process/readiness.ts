/**
 * Looks whether traffic can be carried, now and every few seconds, remembers what was up before, and
 * tells of changes.
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
  /** Absent while there is none yet. */
  plane(): Pick<DataPlane, "listeners" | "stuck"> | undefined;
  /** Ready for the first time, not any more, again; not told of draining. */
  onChange(reasons: readonly string[]): void;
  /** Ends the looking. */
  readonly signal: AbortSignal;
}

/** Certificates expire with nobody asking. */
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

  /** Looks now, and from now on by itself. */
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
    // Where none answered in time, what was seen last holds.
    if (paths.length > 0) {
      const listeners = mergeListeners(paths.map((open) => open.filter((one) => !isOnItsWay(one))));
      this.#seen = new Map(listeners.map((listener) => [listener.name, listener]));
    }
    const facts = this.#options.facts();
    const health = judgeReadiness(facts, {
      ...{ listeners: this.#seen, stuck, wanted: this.#options.wanted },
      ...{ everUp: this.#everUp, wasReady: this.#wasReady },
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

/** Being bound at this moment. */
function isOnItsWay({ state, error }: ListenerView): boolean {
  return state === "failed" && error === "";
}
