/**
 * The state of a watch towards its sink: a value is delivered when its content changes, a failure leaves
 * the last one, and a sink that throws does not end the watch.
 *
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import { type Counter, type LogFields, messageOf, ProxyError } from "../../base/mod.ts";
import type { CommonDeps, WatchSink, WatchState } from "../model/consul.ts";

interface DeliveryOptions<T> {
  readonly sink: WatchSink<T>;
  readonly deps: Omit<CommonDeps, "random">;
  /** Nothing is delivered any more once it aborts. */
  readonly signal?: AbortSignal;
}

export class Delivery<T> {
  readonly #name: string;
  readonly #options: DeliveryOptions<T>;
  readonly #failureCounter: Counter;
  last: { readonly value: T } | undefined;
  /** Number of consecutive failures. */
  failures = 0;
  #lastSuccessMs: number | undefined;
  #lastError: string | undefined;

  constructor(
    { name, resource }: { readonly name: string; readonly resource: string },
    options: DeliveryOptions<T>,
  ) {
    this.#name = name;
    this.#options = options;
    const help =
      "Requests of watches that failed, by resource; the last state stays and they are repeated";
    const { stats } = options.deps;
    this.#failureCounter = stats.counter("agent_watch_failures_total", help, { resource });
  }

  stateWith(mode: WatchState["mode"]): WatchState {
    return {
      name: this.#name,
      mode,
      lastSuccessMs: this.#lastSuccessMs,
      failures: this.failures,
      lastError: this.#lastError,
    };
  }

  succeeded(value: T): void {
    this.#lastSuccessMs = this.#options.deps.clock.monotonic();
    if (this.failures > 0) this.#options.deps.log.debug("watch recovered", { watch: this.#name });
    this.failures = 0;
    this.#lastError = undefined;
    if (this.last && isDeepStrictEqual(this.last.value, value)) return;
    this.last = { value };
    this.#deliver(() => this.#options.sink.onValue(value));
  }

  failed(error: ProxyError, more: LogFields = {}): void {
    this.failures++;
    this.#failureCounter.add(1);
    this.#lastError = error.message;
    const fields = { watch: this.#name, error: error.message, ...more };
    // The one line for people is written where all watches are known.
    this.#options.deps.log.debug("watch failed, the last state stays", fields);
    this.#deliver(() => this.#options.sink.onError(error));
  }

  #deliver(fn: () => void): void {
    if (this.#options.signal?.aborted) return;
    try {
      fn();
    } catch (error) {
      const fields = { watch: this.#name, error: messageOf(error) };
      this.#options.deps.log.error("watch: its listener failed", fields);
    }
  }
}

export function toProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error;
  return new ProxyError("internal", messageOf(error), { cause: error });
}
