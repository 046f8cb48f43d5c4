/** A caller and its exchanges, as the application, the access log and plugins see them. @module */

import { type DownstreamFacts, type ExchangeRecord, fieldOf, NOT_REACHED } from "../../http/mod.ts";
import {
  type Connection,
  EndedExchange,
  type Exchange,
  faultOf,
  IN,
  type Layer,
  type LayerStack,
  type Log,
  RECORD,
  type RecordedExchange,
  type Span,
  spanIn,
  type StateKey,
} from "../../plugin/mod.ts";
import { connectionValue } from "../caller/authorize.ts";
import type { Session } from "../caller/session.ts";
import type { ConnectionRecord } from "../observe/connection_record.ts";

/** The caller of the requests of one connection, for the application and the access log. */
export class DownstreamInfo implements DownstreamFacts {
  readonly id: number;
  readonly remote: string;
  readonly requestedServerName: string;
  readonly tlsVersion: string;
  readonly isSecure: boolean;
  readonly connection: ConnectionRecord;
  readonly #session: Session;
  #clientCert: string | undefined;
  #value: Connection | undefined;

  /** The caller is identified. */
  constructor(session: Session) {
    const { record, caller: { presented } } = session;
    this.#session = session;
    this.connection = record;
    this.id = record.id;
    this.remote = record.remote;
    this.requestedServerName = record.serverName;
    this.tlsVersion = presented?.version ?? "";
    this.isSecure = presented !== undefined;
  }

  get local(): string {
    return this.#session.caller.local;
  }

  get peer(): DownstreamFacts["peer"] {
    const { peer, presented } = this.#session.caller;
    return peer && { uri: peer.uri, serial: peer.serial, leaf: presented?.leaf };
  }

  get localUri(): string {
    return this.#session.caller.ownUris[0] ?? "";
  }

  /** The element of `X-Forwarded-Client-Cert`, made once; `""`: the caller showed no certificate. */
  get clientCert(): string {
    return this.#clientCert ??= this.#makeClientCert();
  }

  get value(): Connection {
    return this.#value ??= connectionValue(this.#session);
  }

  #makeClientCert(): string {
    const { context, caller: { peer, presented, ownUris } } = this.#session;
    const leaf = presented?.leaf;
    if (!leaf || !peer?.verified) return "";
    const chain = () => presented.chain().filter((der) => der !== leaf);
    return context.clientCerts.of(leaf, { by: ownUris, serial: peer.serial, chain });
  }
}

type OnEnd = Parameters<Exchange["onEnd"]>[0];

/** A call of a plugin names its exchange by the signal of the exchange. */
const callers = new WeakMap<AbortSignal, string>();

/** The key of the caller whose exchange has that signal; `""`: no exchange has it. */
export function callerOf(signal: AbortSignal | undefined): string {
  return signal ? callers.get(signal) ?? "" : "";
}

/** An exchange as plugins see it. Its parts are made when they are first used. */
export class ExchangeValue implements RecordedExchange {
  readonly connection: Connection;
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
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#caller !== "") callers.set(this.#abort.signal, this.#caller);
    }
    if (this.#record.endAt !== NOT_REACHED) this.#abort.abort();
    return this.#abort.signal;
  }

  get<T>(key: StateKey<T>): T | undefined {
    return this.#state?.get(key) as T | undefined;
  }

  set<T>(key: StateKey<T>, value: T): void {
    (this.#state ??= new Map()).set(key, value);
  }

  span(name: string): Span {
    return spanIn(this.#record.trace, name);
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
      const outer = health?.enter(IN.onEnd) ?? 0;
      try {
        callback(summary);
      } catch (error) {
        const reason = faultOf(error);
        if (health) health.failed(reason, { hook: "onEnd" });
        else log.warn("a plugin failed at the end of an exchange", { reason });
      }
      health?.leave(outer);
      if (startedMs !== undefined) health?.end(startedMs, "onEnd");
    }
  }
}
