/**
 * A question that cannot be waited on, asked at intervals. The last answer stays through failures.
 *
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import { messageOf, ProxyError } from "../../base/mod.ts";
import type { WatchHandle, WatchSink, WatchState } from "../agent.ts";
import type { LoopDeps } from "./blocking_query.ts";
import type { CallKind } from "./budget.ts";
import { wakeableSleep } from "./wakeable_sleep.ts";

/** First pause after a failure; doubles up to the interval, or this, whichever is longer. */
const RETRY_MS = 1_000;
const RETRY_LIMIT_MS = 10_000;

export interface RepeatSource<T> {
  readonly name: string;
  readonly resource: string;
  readonly kind: CallKind;
  readonly intervalMs: number;
  /** Also ask soon after a connection to the agent broke. */
  readonly askAfterLoss?: boolean;
  ask(signal: AbortSignal): Promise<T>;
}

export function startRepeat<T>(
  source: RepeatSource<T>,
  options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
): WatchHandle {
  const loop = new RepeatLoop(source, options);
  void loop.run();
  return loop;
}

class RepeatLoop<T> implements WatchHandle {
  readonly #source: RepeatSource<T>;
  readonly #sink: WatchSink<T>;
  readonly #deps: LoopDeps;
  readonly #stop = new AbortController();
  #delivered: { readonly value: T } | undefined;
  #lastSuccessMs: number | undefined;
  #failures = 0;
  #lastError: string | undefined;

  constructor(
    source: RepeatSource<T>,
    options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
  ) {
    this.#source = source;
    this.#sink = options.sink;
    this.#deps = options.deps;
  }

  get state(): WatchState {
    return {
      name: this.#source.name,
      mode: "poll",
      lastSuccessMs: this.#lastSuccessMs,
      failures: this.#failures,
      lastError: this.#lastError,
    };
  }

  stop(): void {
    this.#stop.abort();
  }

  touch(): void {}

  async run(): Promise<void> {
    const { budget } = this.#deps;
    const signal = this.#stop.signal;
    while (!signal.aborted) {
      try {
        const run = () => this.#source.ask(signal);
        const value = await budget.call(this.#source.kind, { signal, run });
        if (signal.aborted) return;
        this.#succeeded(value);
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    const { clock, random, link } = this.#deps;
    const { intervalMs, askAfterLoss } = this.#source;
    const limitMs = Math.max(RETRY_MS, Math.min(intervalMs, RETRY_LIMIT_MS));
    const baseMs = this.#failures === 0
      ? intervalMs
      : Math.min(limitMs, RETRY_MS * 2 ** Math.min(this.#failures - 1, 10));
    const signal = this.#stop.signal;
    // A tenth either way keeps the sidecars of a host apart.
    const woken = await wakeableSleep(clock, baseMs * (0.9 + 0.2 * random()), {
      signal,
      // While failing, the pause is short anyway.
      ...(askAfterLoss && this.#failures === 0
        ? { onWake: (wake: () => void) => link.onLost(wake) }
        : {}),
    });
    if (woken) await wakeableSleep(clock, RETRY_MS * (1 + random()), { signal });
  }

  #succeeded(value: T): void {
    this.#lastSuccessMs = this.#deps.clock.monotonic();
    if (this.#failures > 0) {
      this.#deps.log.debug("agent watch recovered", { watch: this.#source.name });
    }
    this.#failures = 0;
    this.#lastError = undefined;
    if (this.#delivered && isDeepStrictEqual(this.#delivered.value, value)) return;
    this.#delivered = { value };
    this.#tell(() => this.#sink.onValue(value));
  }

  #failed(thrown: unknown): void {
    const { log, stats } = this.#deps;
    const error = thrown instanceof ProxyError
      ? thrown
      : new ProxyError("internal", messageOf(thrown), { cause: thrown });
    this.#failures++;
    stats.counter("agent_watch_failures_total", "Failed questions of agent watches", {
      resource: this.#source.resource,
    }).add(1);
    const fields = { watch: this.#source.name, error: error.message };
    // The one line for people is written by who knows about all watches.
    log.debug("agent watch failed, the last state stays", fields);
    this.#lastError = error.message;
    this.#tell(() => this.#sink.onError(error));
  }

  #tell(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.#deps.log.error("agent watch: its listener failed", {
        watch: this.#source.name,
        error: messageOf(error),
      });
    }
  }
}
