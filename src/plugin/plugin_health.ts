/**
 * How a plugin does on one listener: what it failed at, whether it is asked at all after failing again and
 * again, and whether it keeps the thread to itself.
 *
 * @module
 */

import type { Counter, Gauge, Stats } from "../base/mod.ts";
import type { HostDeps } from "./host.ts";
import type { Log } from "./api.ts";

/** What the layers ask of it. */
export interface LayerHealth {
  /** False: it failed too often, and is not asked now. */
  mayBeAsked(): boolean;
  /** The same without letting one through to see. */
  readonly isBroken: boolean;
  /** Why it is not. */
  readonly whyBroken: string;
  failed(reason: string, where?: FailedWhere): void;
  /** What it was asked for is done. */
  passed(): void;
  /** Before a hook is called: when it began; `undefined`: this call is not looked at. */
  begin(): number | undefined;
  /** After it gave the thread back; `startedMs` is later by what of the time was not its own. */
  end(startedMs: number, hook: string): void;
  /** Monotonic. */
  nowMs(): number;
}

/** In which hook, and on which route; left out: neither was known. */
export interface FailedWhere {
  readonly hook?: string;
  readonly route?: string | undefined;
}

export interface LastFailure {
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
}

const FAILURES_IN_A_ROW = 5;
const FIRST_PAUSE_MS = 10_000;
const LONGEST_PAUSE_MS = 60_000;
/** Nobody else is served meanwhile. */
const THREAD_LIMIT_MS = 50;
/**
 * Reading the clock costs as much as a hook: one call of so many is looked at. Odd, since hooks of an
 * exchange come in pairs.
 */
const LOOKED_AT = 61;
const WARN_EVERY_MS = 10_000;
const SHOWN_CHARS = 500;

const METRICS = {
  failures: [
    "plugin_failures_total",
    "Times that the plugin threw, took too long, or broke another rule of the contract",
  ],
  held: [
    "plugin_held_thread_total",
    "Calls of the plugin that held the thread for 50 ms or more; not every call is timed",
  ],
  broken: [
    "plugin_broken",
    "1 while the plugin is not called because it failed five times in a row",
  ],
} as const;

export interface PluginHealthOptions {
  readonly plugin: string;
  readonly listener: string;
  /** Where its configuration stands. */
  readonly at: string;
  /** The plugin's own, which names it. */
  readonly log: Log;
  readonly lender: Pick<HostDeps, "clock" | "stats">;
}

export class PluginHealth implements LayerHealth {
  failures = 0;
  lastFailure: LastFailure | undefined;
  readonly #options: PluginHealthOptions;
  readonly #failures: Counter;
  readonly #held: Counter;
  readonly #broken: Gauge;
  #inARow = 0;
  /** 0: it is asked. */
  #pauseMs = 0;
  #pauseEndsMs = 0;
  /** Somebody was let through to it since. */
  #isTried = false;
  #isRetired = false;
  #calls = 0;
  #warnedMs = -Infinity;

  constructor(options: PluginHealthOptions) {
    const { lender: { stats } } = this.#options = options;
    const labels = labelsOf(options);
    this.#failures = stats.counter(...METRICS.failures, labels);
    this.#held = stats.counter(...METRICS.held, labels);
    this.#broken = stats.gauge(...METRICS.broken, labels);
  }

  get isBroken(): boolean {
    return this.#pauseMs > 0;
  }

  get whyBroken(): string {
    const reason = this.lastFailure?.reason ?? "";
    return `failed ${FAILURES_IN_A_ROW} times in a row, the last time: ${reason}`;
  }

  /** After a pause one is let through to see; while that is not known the others wait for another one. */
  mayBeAsked(): boolean {
    if (this.#pauseMs === 0) return true;
    const nowMs = this.nowMs();
    if (nowMs < this.#pauseEndsMs) return false;
    this.#pauseEndsMs = nowMs + this.#pauseMs;
    this.#isTried = true;
    return true;
  }

  failed(text: string, { hook, route }: FailedWhere = {}): void {
    const { lender: { clock }, log, at } = this.#options;
    const reason = text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
    this.failures++;
    this.#failures.add(1);
    this.lastFailure = { reason, atMs: clock.now() };
    const where = { ...(hook && { hook }), ...(route && { route }), at };
    log.warn("plugin failed", { ...where, reason });
    if (this.#pauseMs === 0) {
      if (++this.#inARow < FAILURES_IN_A_ROW) return;
      if (!this.#isRetired) this.#broken.set(1);
      log.error("plugin is not asked any more for a while", {
        failures: FAILURES_IN_A_ROW,
        reason,
      });
    } else if (!this.#isTried) return;
    this.#isTried = false;
    this.#pauseMs = Math.min(this.#pauseMs * 2 || FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    this.#pauseEndsMs = this.nowMs() + this.#pauseMs;
  }

  passed(): void {
    if (this.#inARow === 0) return;
    if (this.#pauseMs > 0) {
      // Somebody of before.
      if (!this.#isTried) return;
      if (!this.#isRetired) this.#broken.set(0);
      this.#options.log.info("plugin is asked again");
    }
    this.#inARow = 0;
    this.#pauseMs = 0;
    this.#isTried = false;
  }

  /** Another one is what is told of from now on. */
  retire(): void {
    this.#isRetired = true;
    if (this.isBroken) this.#broken.set(0);
  }

  begin(): number | undefined {
    return this.#calls++ % LOOKED_AT === 0 ? this.nowMs() : undefined;
  }

  end(startedMs: number, hook: string): void {
    const nowMs = this.nowMs();
    const tookMs = nowMs - startedMs;
    if (tookMs < THREAD_LIMIT_MS) return;
    this.#held.add(1);
    if (nowMs - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = nowMs;
    const facts = { hook, ms: Math.round(tookMs) };
    this.#options.log.warn("plugin held the thread: nobody else was served meanwhile", facts);
  }

  nowMs(): number {
    return this.#options.lender.clock.monotonic();
  }
}

function labelsOf({ plugin, listener }: { readonly plugin: string; readonly listener: string }) {
  return { plugin, listener };
}

/** Gives the names of what is counted of a plugin that its listener has no more back. */
export function forgetStanding(
  stats: Stats,
  of: { readonly plugin: string; readonly listener: string },
): void {
  for (const [name] of Object.values(METRICS)) stats.remove(name, labelsOf(of));
}
