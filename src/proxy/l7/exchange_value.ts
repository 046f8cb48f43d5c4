/**
 * An exchange as plugins see it; what nobody asks for is not made.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { type ExchangeRecord, fieldOf } from "../../http/mod.ts";
import {
  type Connection,
  EndedExchange,
  type Exchange,
  type Log,
  RECORD,
  type RecordedExchange,
  type StateKey,
} from "../../plugin/mod.ts";

type OnEnd = Parameters<Exchange["onEnd"]>[0];

export class ExchangeValue implements RecordedExchange {
  readonly connection: Connection;
  readonly #story: ExchangeRecord;
  #state: Map<StateKey<unknown>, unknown> | undefined;
  #abort: AbortController | undefined;
  #onEnd: OnEnd[] | undefined;
  #isOver = false;

  constructor(story: ExchangeRecord, connection: Connection) {
    this.#story = story;
    this.connection = connection;
  }

  get [RECORD](): ExchangeRecord {
    return this.#story;
  }

  get id(): string {
    const { request } = this.#story;
    return request ? fieldOf(request.fields, "x-request-id") ?? "" : "";
  }

  get signal(): AbortSignal {
    const abort = this.#abort ??= new AbortController();
    if (this.#isOver) abort.abort();
    return abort.signal;
  }

  get<T>(key: StateKey<T>): T | undefined {
    return this.#state?.get(key) as T | undefined;
  }

  set<T>(key: StateKey<T>, value: T): void {
    (this.#state ??= new Map()).set(key, value);
  }

  onEnd(callback: OnEnd): void {
    (this.#onEnd ??= []).push(callback);
  }

  /** Nobody waits for anything any more; `log`: for a callback that throws. */
  over(log: Log): void {
    this.#isOver = true;
    this.#abort?.abort();
    if (!this.#onEnd) return;
    const summary = new EndedExchange(this.#story);
    for (const callback of this.#onEnd) {
      try {
        callback(summary);
      } catch (error) {
        log.warn("a plugin failed at the end of an exchange", { reason: messageOf(error) });
      }
    }
  }
}
