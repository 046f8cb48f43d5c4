/** A question that cannot be waited on, sent at intervals. @module */

import type { WatchHandle, WatchSink } from "../model/consul.ts";
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

/** Runs until the handle is stopped. The last answer stays through failures. */
export function startRepeat<T>(
  question: RepeatQuestion<T>,
  { sink, deps }: { readonly sink: WatchSink<T>; readonly deps: LoopDeps },
): WatchHandle {
  const stop = new AbortController();
  const { signal } = stop;
  const delivery = new Delivery(question, { sink, deps, signal });
  void repeat(question, { delivery, deps, signal });
  return {
    get state() {
      return delivery.stateWith("poll");
    },
    stop: () => stop.abort(),
  };
}

async function repeat<T>(question: RepeatQuestion<T>, { delivery, deps, signal }: {
  readonly delivery: Delivery<T>;
  readonly deps: LoopDeps;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { clock, random, reach, budget } = deps;
  const { kind, intervalMs, askAfterLoss } = question;
  const limitMs = Math.max(RETRY_MS, Math.min(intervalMs, RETRY_LIMIT_MS));
  while (!signal.aborted) {
    try {
      const value = await budget.call(kind, { signal, run: () => question.ask(signal) });
      if (signal.aborted) return;
      delivery.succeeded(value);
    } catch (error) {
      if (signal.aborted) return;
      delivery.failed(toProxyError(error));
    }
    const { failures } = delivery;
    const baseMs = failures === 0
      ? intervalMs
      : Math.min(limitMs, RETRY_MS * 2 ** Math.min(failures - 1, 10));
    // A tenth either way keeps the sidecars of a host apart. While it fails the pause is short anyway.
    const woken = await wakeableSleep(clock, baseMs * (0.9 + 0.2 * random()), {
      signal,
      ...(askAfterLoss && failures === 0 && { onWake: (wake) => reach.on("lost", wake) }),
    });
    if (woken) await wakeableSleep(clock, RETRY_MS * (1 + random()), { signal });
  }
}
