/**
 * A question that cannot be waited on, sent at intervals. The last answer stays through failures.
 * @module
 */

import type { WatchHandle, WatchSink, WatchState } from "../model/consul.ts";
import type { LoopDeps } from "./blocking_query.ts";
import type { CallKind } from "./budget.ts";
import { Delivery, toProxyError } from "./delivery.ts";
import { wakeableSleep } from "./pauses.ts";

/** First pause after a failure; doubles up to the interval, or to the limit if that is less. */
const RETRY_MS = 1_000;
const RETRY_LIMIT_MS = 10_000;

export interface RepeatQuestion<T> {
  readonly name: string;
  readonly resource: string;
  readonly kind: CallKind;
  readonly intervalMs: number;
  /** Also ask soon after a connection to Consul broke. */
  readonly askAfterLoss?: boolean;
  ask(signal: AbortSignal): Promise<T>;
}

export function startRepeat<T>(
  question: RepeatQuestion<T>,
  options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
): WatchHandle {
  const loop = new RepeatLoop(question, options);
  void loop.run();
  return loop;
}

class RepeatLoop<T> implements WatchHandle {
  readonly #question: RepeatQuestion<T>;
  readonly #deps: LoopDeps;
  readonly #stop = new AbortController();
  readonly #delivery: Delivery<T>;

  constructor(
    question: RepeatQuestion<T>,
    options: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
  ) {
    this.#question = question;
    this.#deps = options.deps;
    this.#delivery = new Delivery(question, { ...options, signal: this.#stop.signal });
  }

  get state(): WatchState {
    return this.#delivery.stateWith("poll");
  }

  stop(): void {
    this.#stop.abort();
  }

  async run(): Promise<void> {
    const { budget } = this.#deps;
    const signal = this.#stop.signal;
    while (!signal.aborted) {
      try {
        const run = () => this.#question.ask(signal);
        const value = await budget.call(this.#question.kind, { signal, run });
        if (signal.aborted) return;
        this.#delivery.succeeded(value);
      } catch (error) {
        if (signal.aborted) return;
        this.#delivery.failed(toProxyError(error));
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    const { clock, random, reach } = this.#deps;
    const { intervalMs, askAfterLoss } = this.#question;
    const limitMs = Math.max(RETRY_MS, Math.min(intervalMs, RETRY_LIMIT_MS));
    const { failures } = this.#delivery;
    const baseMs = failures === 0
      ? intervalMs
      : Math.min(limitMs, RETRY_MS * 2 ** Math.min(failures - 1, 10));
    const signal = this.#stop.signal;
    // A tenth either way keeps the sidecars of a host apart.
    const woken = await wakeableSleep(clock, baseMs * (0.9 + 0.2 * random()), {
      signal,
      // While it fails the pause is short anyway.
      ...(askAfterLoss && failures === 0
        ? { onWake: (wake: () => void) => reach.onLost(wake) }
        : {}),
    });
    if (woken) await wakeableSleep(clock, RETRY_MS * (1 + random()), { signal });
  }
}
