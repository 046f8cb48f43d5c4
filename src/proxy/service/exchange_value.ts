/**
 * An exchange as plugins see it; what nobody asks for is not made.
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

/** A plugin that asks somebody says for which exchange by its signal. */
const callers = new WeakMap<AbortSignal, string>();

/** Key of the caller whose exchange has that signal; `""`: it is no exchange's. */
export function callerOf(signal: AbortSignal | undefined): string {
  return signal ? callers.get(signal) ?? "" : "";
}

export class ExchangeValue implements RecordedExchange {
  readonly connection: Connection;
  /** Of the layers around it. */
  onion: Pick<LayerStack, "holder"> | undefined;
  readonly #story: ExchangeRecord;
  readonly #caller: string;
  #state: Map<StateKey<unknown>, unknown> | undefined;
  #abort: AbortController | undefined;
  #onEnd: { readonly callback: OnEnd; readonly by: Layer | undefined }[] | undefined;

  /** `caller`: key of who asks; `""`: nobody in particular. */
  constructor(story: ExchangeRecord, connection: Connection, caller = "") {
    this.#story = story;
    this.connection = connection;
    this.#caller = caller;
  }

  get [RECORD](): ExchangeRecord {
    return this.#story;
  }

  get id(): string {
    const { request } = this.#story;
    return request ? fieldOf(request.fields, "x-request-id") ?? "" : "";
  }

  get signal(): AbortSignal {
    const abort = this.#abort ??= this.#newAbort();
    if (this.#story.endAt !== NOT_REACHED) abort.abort();
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
    (this.#onEnd ??= []).push({ callback, by: this.onion?.holder });
  }

  /** Nobody waits for anything any more; `log`: for a callback of nobody's that throws. */
  over(log: Log): void {
    this.#abort?.abort();
    if (!this.#onEnd) return;
    const summary = new EndedExchange(this.#story);
    for (const { callback, by } of this.#onEnd) {
      const standing = by?.standing;
      const startedMs = standing?.begin();
      try {
        callback(summary);
      } catch (error) {
        const reason = faultOf(error);
        if (standing) standing.failed(reason, { hook: "onEnd" });
        else log.warn("a plugin failed at the end of an exchange", { reason });
      }
      if (startedMs !== undefined) standing?.end(startedMs, "onEnd");
    }
  }
}
