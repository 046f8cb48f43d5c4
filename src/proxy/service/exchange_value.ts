/**
 * An exchange as plugins see it. Its parts are made when they are first used.
 *
 * @module
 */

import { type ExchangeRecord, fieldOf, NOT_REACHED } from "../../http/mod.ts";
import {
  type Connection,
  EndedExchange,
  type Exchange,
  faultOf,
  type Layer,
  type LayerStack,
  type Log,
  RECORD,
  type RecordedExchange,
  type StateKey,
} from "../../plugin/mod.ts";

type OnEnd = Parameters<Exchange["onEnd"]>[0];

/** A call of a plugin names its exchange by the signal of the exchange. */
const callers = new WeakMap<AbortSignal, string>();

/** The key of the caller whose exchange has that signal; `""`: no exchange has it. */
export function callerOf(signal: AbortSignal | undefined): string {
  return signal ? callers.get(signal) ?? "" : "";
}

export class ExchangeValue implements RecordedExchange {
  readonly connection: Connection;
  /** The layers of the exchange. */
  stack: Pick<LayerStack, "holder"> | undefined;
  readonly #record: ExchangeRecord;
  readonly #caller: string;
  #state: Map<StateKey<unknown>, unknown> | undefined;
  #abort: AbortController | undefined;
  #onEnd: { readonly callback: OnEnd; readonly by: Layer | undefined }[] | undefined;

  /** `caller`: key of the caller; `""`: none. */
  constructor(record: ExchangeRecord, connection: Connection, caller = "") {
    this.#record = record;
    this.connection = connection;
    this.#caller = caller;
  }

  get [RECORD](): ExchangeRecord {
    return this.#record;
  }

  get id(): string {
    const { request } = this.#record;
    return request ? fieldOf(request.fields, "x-request-id") ?? "" : "";
  }

  get signal(): AbortSignal {
    const abort = this.#abort ??= this.#newAbort();
    if (this.#record.endAt !== NOT_REACHED) abort.abort();
    return abort.signal;
  }

  #newAbort(): AbortController {
    const abort = new AbortController();
    if (this.#caller !== "") callers.set(abort.signal, this.#caller);
    return abort;
  }

  get<T>(key: StateKey<T>): T | undefined {
    return this.#state?.get(key) as T | undefined;
  }

  set<T>(key: StateKey<T>, value: T): void {
    (this.#state ??= new Map()).set(key, value);
  }

  onEnd(callback: OnEnd): void {
    (this.#onEnd ??= []).push({ callback, by: this.stack?.holder });
  }

  /** Ends the exchange. `log` takes errors of callbacks that belong to no layer. */
  over(log: Log): void {
    this.#abort?.abort();
    if (!this.#onEnd) return;
    const summary = new EndedExchange(this.#record);
    for (const { callback, by } of this.#onEnd) {
      const health = by?.health;
      const startedMs = health?.begin();
      try {
        callback(summary);
      } catch (error) {
        const reason = faultOf(error);
        if (health) health.failed(reason, { hook: "onEnd" });
        else log.warn("a plugin failed at the end of an exchange", { reason });
      }
      if (startedMs !== undefined) health?.end(startedMs, "onEnd");
    }
  }
}
