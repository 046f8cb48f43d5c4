/** Judges readiness. A listener that never was up does not stop the traffic of others. @module */

import { type Health, mergeListeners, withWarming } from "../../admin/mod.ts";
import type { ListenerView } from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { type Clock, type Log, messageOf, type Timer } from "../../base/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import type { DataPlane } from "../workers/plane.ts";

export interface ReadinessFacts {
  readonly draining: boolean;
  readonly snapshot: Snapshot | undefined;
  /** Why the newest snapshot is not in force; `undefined`: it is, or the decision is open. */
  readonly refusal: string | undefined;
  /** Parts that the first snapshot still lacks. */
  readonly waitingFor: string;
  /** Listeners and upstreams that stay closed until their secrets have come. */
  readonly warming: readonly string[];
  /** Reasons why the source hears of no changes; empty: it does. */
  readonly unheard: readonly string[];
  /** Describes another proxy with the ports of this one; `""`: none was found. */
  readonly rival: string;
}

interface ListenersSeen {
  /** Views by name; when data paths differ, that of the path in trouble. */
  readonly listeners: ReadonlyMap<string, ListenerView>;
  /** Descriptions of data paths that are stuck. */
  readonly stuck: readonly string[];
  /** Names of those that were up at any time. */
  readonly everUp: ReadonlySet<string>;
  /** The proxy was ready at any time. */
  readonly wasReady: boolean;
  readonly wanted: ProxyOptions["ready"];
}

/** Most different troubles listed, and listeners named for each; `/listeners` has them all. */
const LISTED = 20;
const NAMED = 3;
const RETRIED = "tried again every second";

function judgeReadiness(
  { draining, snapshot, refusal, waitingFor, warming, unheard, rival }: ReadinessFacts,
  { listeners, stuck, everUp, wasReady, wanted }: ListenersSeen,
): Health {
  const exposed = Object.keys(snapshot?.exposed ?? {});
  const first = draining ? ["draining", ...stuck] : stuck;
  const names = snapshot ? listenersOf(snapshot) : [];
  // The snapshot in force may be older than the secrets, with no listener open yet.
  if (!snapshot || (names.length === 0 && refusal !== undefined)) {
    const awaited = refusal === undefined ? waitingFor : `a snapshot that can be used: ${refusal}`;
    const notReady = [...first, `waiting for ${awaited}`, ...unheard];
    return { notReady, warnings: [], failing: [], listeners: { total: 0, unusable: 0 } };
  }
  const counting = new Troubles();
  const others = new Troubles();
  const warned = new Troubles();
  const troubles = names.map((name) => [name, troubleOf(listeners.get(name))] as const);
  const isDark = troubles.every(([, trouble]) => trouble !== undefined);
  const waiting = withWarming([...listeners.values()], warming)
    .filter(({ state }) => state === "warming");
  const isStrict = wanted === "all";
  for (const [name, trouble] of troubles) {
    if (trouble === undefined) continue;
    const isUnbound = listeners.get(name)?.state !== "listening";
    const isMissed = everUp.has(name) || (isUnbound && !wasReady);
    (isDark || (isStrict && isMissed) ? counting : others).add(name, trouble);
  }
  // Exposed paths serve clients outside the mesh: they do not decide about readiness.
  for (const name of exposed) {
    const trouble = troubleOf(listeners.get(name));
    if (trouble !== undefined) others.add(name, trouble);
  }
  for (const { name, warnings } of listeners.values()) {
    for (const warning of warnings) warned.add(name, warning);
  }
  if (rival !== "" && [...listeners.values()].some(({ state }) => state === "failed")) {
    (counting.size > 0 ? counting : others).note(rival);
  }
  const mustWarm = (isDark && waiting.length > 0) || (isStrict && !wasReady);
  const waits = warming.map((what) => `waiting for ${what}`);
  const failing = [...others.texts(), ...(mustWarm ? [] : waits)];
  return {
    notReady: [...first, ...counting.texts(), ...(mustWarm ? waits : [])],
    warnings: [...unheard, ...failing, ...warned.texts()],
    failing,
    listeners: {
      total: names.length + exposed.length + waiting.length,
      unusable: counting.size + others.size + waiting.length,
    },
  };
}

/** Listeners of `snapshot` that are up or were up `before`; a removed listener is not missed. */
function everUpOf(
  snapshot: Snapshot,
  listeners: ReadonlyMap<string, ListenerView>,
  before: ReadonlySet<string>,
): ReadonlySet<string> {
  return new Set(
    listenersOf(snapshot).filter((name) =>
      before.has(name) || troubleOf(listeners.get(name)) === undefined
    ),
  );
}

function listenersOf({ inbound, upstreams, edges }: Snapshot): readonly string[] {
  const bound = Object.keys(upstreams).filter((id) => upstreams[id]?.bind !== null);
  return [...Object.keys(inbound), ...Object.keys(edges), ...bound];
}

/** The reason why the listener carries no traffic, as a predicate after its name; `undefined`: it can. */
function troubleOf(listener: ListenerView | undefined): string | undefined {
  if (!listener) return "is not bound yet";
  if (listener.state === "failed") return `is not bound: ${listener.error}; ${RETRIED}`;
  return listener.fault === "" ? undefined : `refuses every connection: ${listener.fault}`;
}

/** Troubles with their listeners; thousands of listeners may have the same trouble. */
class Troubles {
  readonly #names = new Map<string, string[]>();
  readonly #notes: string[] = [];
  size = 0;

  note(text: string): void {
    this.#notes.push(text);
  }

  add(name: string, trouble: string): void {
    this.size++;
    const names = this.#names.get(trouble);
    if (names) names.push(name);
    else this.#names.set(trouble, [name]);
  }

  texts(): readonly string[] {
    const texts = [...this.#names].slice(0, LISTED).map(([trouble, names]) => {
      const [first = ""] = names;
      if (names.length === 1) return `listener ${first} ${trouble}`;
      const more = names.length - NAMED;
      const named = names.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
      return `listeners ${named} ${trouble.replace(/^is/, "are").replace(/^refuses/, "refuse")}`;
    });
    const more = this.#names.size - texts.length;
    const rest = more > 0 ? [`and ${more} more, see /listeners`] : [];
    return [...texts, ...rest, ...this.#notes];
  }
}

export interface ReadinessOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly wanted: ProxyOptions["ready"];
  facts(): ReadinessFacts;
  /** `undefined` until the plane exists. */
  plane(): Pick<DataPlane, "listeners" | "stuck"> | undefined;
  /** Called when readiness changes, except by draining. */
  onChange(reasons: readonly string[]): void;
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
      // A failure without a reason is a listener that is being bound.
      const listeners = mergeListeners(
        paths.map((open) => open.filter(({ state, error }) => state !== "failed" || error !== "")),
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
