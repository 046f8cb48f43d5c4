/** The health of a plugin on one listener: failures, pauses, and calls that held the thread. @module */

import type { Counter, Gauge, NewEvent, Stats } from "../base/mod.ts";
import type { HostDeps } from "./host.ts";
import type { Log } from "./api.ts";
import { type HookMark, IN } from "./hook_marks.ts";

export interface LayerHealth {
  /** False: the plugin failed too often and pauses. After the pause one call is let through as a trial. */
  mayBeCalled(): boolean;
  /** The plugin pauses; reading this starts no trial. */
  readonly isBroken: boolean;
  readonly whyBroken: string;
  failed(reason: string, where?: FailedWhere): void;
  passed(): void;
  /** Around each synchronous call of a hook; what `enter` returns goes to `leave`. See {@link HookMark}. */
  enter(hook: number): number;
  leave(before: number): void;
  /** `onRequest` goes on after it has awaited the response. */
  resumed(): void;
  /** Before a hook is called: the start time; `undefined`: this call is not timed. */
  begin(): number | undefined;
  /** After the hook returned. `startedMs` excludes time that was spent elsewhere. */
  end(startedMs: number, hook: string): void;
  /** Monotonic milliseconds. */
  nowMs(): number;
}

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
/** A plugin that holds the thread longer stalls all other exchanges. */
const THREAD_LIMIT_MS = 50;
/** Reading the clock costs as much as a hook. Odd, since the hooks of an exchange come in pairs. */
const TIMED_EVERY = 61;
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
    "1 while the plugin is not called because it failed five times in a row, or held workers",
  ],
} as const;

interface PluginHealthOptions {
  readonly plugin: string;
  readonly listener: string;
  readonly onFailure: "refuse" | "skip";
  /** Path of its configuration, for messages. */
  readonly at: string;
  /** The plugin's own log, which names the plugin. */
  readonly log: Log;
  /** Absent for plugins of the executable. */
  readonly mark?: HookMark | undefined;
  readonly lender: Pick<HostDeps, "clock" | "stats" | "conditions">;
}

export class PluginHealth implements LayerHealth {
  failures = 0;
  lastFailure: LastFailure | undefined;
  readonly #options: PluginHealthOptions;
  readonly #failures: Counter;
  readonly #held: Counter;
  readonly #broken: Gauge;
  readonly #mark: HookMark | undefined;
  #inARow = 0;
  /** 0: the plugin does not pause. */
  #pauseMs = 0;
  #pauseEndsMs = 0;
  /** A trial call was let through since the pause. */
  #isOnTrial = false;
  #isRetired = false;
  #calls = 0;
  #warnedMs = -Infinity;

  constructor(options: PluginHealthOptions) {
    const { plugin, listener, lender: { stats } } = this.#options = options;
    const labels = { plugin, listener };
    this.#failures = stats.counter(...METRICS.failures, labels);
    this.#held = stats.counter(...METRICS.held, labels);
    this.#broken = stats.gauge(...METRICS.broken, labels);
    this.#mark = options.mark;
    if (!this.#mark) return;
    this.#mark.onHeld = () => this.#heldWorker();
    this.#heldWorker();
  }

  /** The control thread has told that the plugin held a worker. */
  #heldWorker(): void {
    const held = this.#mark?.held;
    if (!held) return;
    const { reason, atMs } = held;
    this.lastFailure = { reason, atMs };
    if (held.barred === "calls" && !this.#isRetired) this.#broken.set(1);
  }

  /** It held workers, and is not called any more. */
  get isBarred(): boolean {
    return this.#mark?.held?.barred === "calls";
  }

  get isBroken(): boolean {
    return this.#pauseMs > 0 || this.isBarred;
  }

  get whyBroken(): string {
    if (this.isBarred) return this.#mark?.held?.reason ?? "";
    const reason = this.lastFailure?.reason ?? "";
    return `failed ${FAILURES_IN_A_ROW} times in a row, the last time: ${reason}`;
  }

  /** After a pause one call is a trial; another follows after the next pause if its result never arrives. */
  mayBeCalled(): boolean {
    if (this.isBarred) return false;
    if (this.#pauseMs === 0) return true;
    const nowMs = this.nowMs();
    if (nowMs < this.#pauseEndsMs) return false;
    this.#pauseEndsMs = nowMs + this.#pauseMs;
    this.#isOnTrial = true;
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
      const failures = FAILURES_IN_A_ROW;
      log.error("plugin is not asked any more for a while", { failures, reason });
      if (!this.#isRetired) this.#began();
    } else if (!this.#isOnTrial) return;
    this.#isOnTrial = false;
    this.#pauseMs = Math.min(this.#pauseMs * 2 || FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    this.#pauseEndsMs = this.nowMs() + this.#pauseMs;
  }

  /** A promise or timer of it failed, and nothing waited for that. */
  failedLoosely(reason: string): void {
    const text = `a promise or timer that nothing waited for: ${reason}`;
    this.lastFailure = {
      reason: text.slice(0, SHOWN_CHARS),
      atMs: this.#options.lender.clock.now(),
    };
  }

  passed(): void {
    if (this.#inARow === 0) return;
    if (this.#pauseMs > 0) {
      // A call from before the pause.
      if (!this.#isOnTrial) return;
      if (!this.#isRetired && !this.isBarred) this.#broken.set(0);
      this.#options.log.info("plugin is asked again");
      const { plugin } = this.#options;
      this.#ended({ ...this.#about, text: `${plugin} is asked again`, isLogged: true });
    }
    this.#inARow = 0;
    this.#pauseMs = 0;
    this.#isOnTrial = false;
  }

  /** A new generation reports the metrics from now on. */
  retire(): void {
    this.#isRetired = true;
    if (!this.isBroken) return;
    this.#broken.set(0);
    if (this.#pauseMs > 0) this.#ended();
  }

  get #about() {
    return { kind: "plugin", subject: this.#options.listener } as const;
  }

  get #key(): string {
    const { plugin, listener } = this.#options;
    return `broken ${plugin} ${listener}`;
  }

  #began(): void {
    const { plugin, onFailure, lender: { conditions } } = this.#options;
    const refuses = onFailure === "refuse";
    conditions?.began(this.#key, {
      ...this.#about,
      text: `${plugin} pauses: ${this.whyBroken}`,
      effect: refuses ? "what it should judge is refused" : "requests go on without it",
      severity: refuses ? "error" : "warn",
      isLogged: true,
    });
  }

  #ended(event?: NewEvent): void {
    this.#options.lender.conditions?.ended(this.#key, event);
  }

  enter(hook: number): number {
    return this.#mark ? this.#mark.enter(hook) : 0;
  }

  leave(before: number): void {
    this.#mark?.leave(before);
  }

  resumed(): void {
    this.#mark?.resumed(IN.onRequest);
  }

  begin(): number | undefined {
    return this.#calls++ % TIMED_EVERY === 0 ? this.nowMs() : undefined;
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

/** Removes the metrics of a plugin that the listener no longer has. */
export function removeHealthStats(
  stats: Stats,
  labels: { readonly plugin: string; readonly listener: string },
): void {
  for (const [name] of Object.values(METRICS)) stats.remove(name, labels);
}
