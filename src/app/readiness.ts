/**
 * Can traffic be carried? Each data path says which of its listeners can; here it is decided what that
 * means for the whole proxy. A listener that never was up does not take away the others' traffic.
 *
 * @module
 */

import { type Health, mergeListeners, withWarming } from "../admin/mod.ts";
import { type Clock, type Log, messageOf, type Timer } from "../base/mod.ts";
import type { ListenerView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import type { DataPlane } from "./plane.ts";

/** What the main thread knows. */
export interface ReadinessFacts {
  readonly draining: boolean;
  readonly snapshot: Snapshot | undefined;
  /** What the first snapshot still lacks. */
  readonly waitingFor: string;
  /** Listeners and upstreams that stay closed until their secrets have come. */
  readonly warming: readonly string[];
}

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
/** Different troubles told, and listeners named for each; `/listeners` has them all. */
const TOLD = 20;
const NAMED = 3;

export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #everUp = new Set<string>();
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
    const health = this.#judge(facts, stuck);
    const isReady = health.notReady.length === 0;
    if (isReady !== this.#isReady && !facts.draining) {
      this.#isReady = isReady;
      this.#wasReady ||= isReady;
      this.#options.onChange(health.notReady);
    }
    return health;
  }

  #judge(
    { draining, snapshot, waitingFor, warming }: ReadinessFacts,
    stuck: readonly string[],
  ): Health {
    const first = draining ? ["draining", ...stuck] : stuck;
    if (!snapshot) {
      const notReady = [...first, `waiting for ${waitingFor}`];
      return { notReady, warnings: [], listeners: { total: 0, unusable: 0 } };
    }
    const names = [...(snapshot.inbound ? ["inbound"] : []), ...Object.keys(snapshot.upstreams)];
    const counting = new Troubles();
    const others = new Troubles();
    const troubles = names.map((name) => [name, troubleOf(this.#seen.get(name))] as const);
    const isDark = troubles.every(([, trouble]) => trouble !== undefined);
    const waiting = withWarming([...this.#seen.values()], warming)
      .filter(({ state }) => state === "warming");
    const isStrict = this.#options.wanted === "all";
    for (const [name, trouble] of troubles) {
      if (trouble === undefined) {
        this.#everUp.add(name);
        continue;
      }
      const isUnbound = this.#seen.get(name)?.state !== "listening";
      const isMissed = this.#everUp.has(name) || (isUnbound && !this.#wasReady);
      (isDark || (isStrict && isMissed) ? counting : others).add(name, trouble);
    }
    const known = new Set(names);
    for (const name of this.#everUp) if (!known.has(name)) this.#everUp.delete(name);
    const mustWarm = (isDark && waiting.length > 0) || (isStrict && !this.#wasReady);
    const waits = warming.map((what) => `waiting for ${what}`);
    return {
      notReady: [...first, ...counting.texts(), ...(mustWarm ? waits : [])],
      warnings: [...others.texts(), ...(mustWarm ? [] : waits)],
      listeners: {
        total: names.length + waiting.length,
        unusable: counting.size + others.size + waiting.length,
      },
    };
  }
}

/** Being bound at this moment. */
function isOnItsWay({ state, error }: ListenerView): boolean {
  return state === "failed" && error === "";
}

/** What follows its name, if it carries no traffic. */
function troubleOf(listener: ListenerView | undefined): string | undefined {
  if (!listener) return "is not bound yet";
  if (listener.state === "failed") return `is not bound: ${listener.error}`;
  return listener.fault === "" ? undefined : `refuses every connection: ${listener.fault}`;
}

/** Thousands of listeners may have the same one. */
class Troubles {
  readonly #names = new Map<string, string[]>();
  size = 0;

  add(name: string, trouble: string): void {
    this.size++;
    const names = this.#names.get(trouble);
    if (names) names.push(name);
    else this.#names.set(trouble, [name]);
  }

  texts(): readonly string[] {
    const texts = [...this.#names].slice(0, TOLD).map(([trouble, names]) => {
      const [first = ""] = names;
      if (names.length === 1) return `listener ${first} ${trouble}`;
      const more = names.length - NAMED;
      const named = names.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
      return `listeners ${named} ${trouble.replace(/^is/, "are").replace(/^refuses/, "refuse")}`;
    });
    const more = this.#names.size - texts.length;
    return more > 0 ? [...texts, `and ${more} more, see /listeners`] : texts;
  }
}
