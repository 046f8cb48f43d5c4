/**
 * The events of connections and exchanges, for everything that only records them: counters, the log, the
 * access log. An observer implements the events that it needs. It must not throw, wait or change its
 * arguments.
 *
 * @module
 */

import type { EndpointState } from "../../balance/mod.ts";
import type { ExchangeRecord } from "../../http/mod.ts";
import type { TargetPart, UpstreamPart } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";

/** An endpoint in use, as a lease has it. */
export interface ReachedEndpoint {
  readonly target: {
    readonly part: Pick<TargetPart, "key">;
    readonly upstream: { readonly part: Pick<UpstreamPart, "id" | "name"> };
  };
  readonly state: EndpointState;
}

/** A session of a caller: a connection, or a stream of one. */
export interface ConnectionObserver {
  /** Accepted; `ended` follows exactly once. */
  began?(record: ConnectionRecord): void;
  /** Allowed by limits, intentions, agent and plugins. */
  admitted?(record: ConnectionRecord): void;
  /** Relayed to an endpoint; absent: the local application. A session that carries HTTP has exchanges instead. */
  reached?(record: ConnectionRecord, endpoint?: ReachedEndpoint): void;
  ended?(record: ConnectionRecord, ending: Ending): void;
}

export interface ExchangeObserver {
  /** The head was read, or could not be; `ended` follows exactly once. */
  began?(record: ExchangeRecord): void;
  /** Allowed by the intentions. */
  admitted?(record: ExchangeRecord): void;
  /** Sent to an endpoint of `record.upstreamCluster`; absent: the local application. Again for each attempt. */
  reached?(record: ExchangeRecord, endpoint?: ReachedEndpoint): void;
  /** The head of the response is sent to the caller, whichever side made it. */
  responded?(record: ExchangeRecord): void;
  /** The record is complete. */
  ended?(record: ExchangeRecord): void;
}

/** Observers of every listener; replaced when one is added or removed. */
export interface Observers {
  readonly connections: readonly ConnectionObserver[];
  readonly exchanges: readonly ExchangeObserver[];
}

export const NO_OBSERVERS: Observers = { connections: [], exchanges: [] };

interface Observed {
  readonly facts: { readonly observers: Observers };
}

/** The observers of one listener: its own counters, then those of every listener. */
class ListenerObservers<Own> {
  protected readonly own: Own;
  readonly #observed: Observed;

  constructor(own: Own, observed: Observed) {
    this.own = own;
    this.#observed = observed;
  }

  protected get shared(): Observers {
    return this.#observed.facts.observers;
  }
}

export class ConnectionObservers extends ListenerObservers<ConnectionObserver>
  implements Required<ConnectionObserver> {
  began(record: ConnectionRecord): void {
    this.own.began?.(record);
    for (const observer of this.shared.connections) observer.began?.(record);
  }

  admitted(record: ConnectionRecord): void {
    for (const observer of this.shared.connections) observer.admitted?.(record);
  }

  reached(record: ConnectionRecord, endpoint?: ReachedEndpoint): void {
    for (const observer of this.shared.connections) observer.reached?.(record, endpoint);
  }

  ended(record: ConnectionRecord, ending: Ending): void {
    this.own.ended?.(record, ending);
    for (const observer of this.shared.connections) observer.ended?.(record, ending);
  }
}

export class ExchangeObservers extends ListenerObservers<ExchangeObserver>
  implements Required<ExchangeObserver> {
  began(record: ExchangeRecord): void {
    this.own.began?.(record);
    for (const observer of this.shared.exchanges) observer.began?.(record);
  }

  admitted(record: ExchangeRecord): void {
    for (const observer of this.shared.exchanges) observer.admitted?.(record);
  }

  reached(record: ExchangeRecord, endpoint?: ReachedEndpoint): void {
    this.own.reached?.(record, endpoint);
    for (const observer of this.shared.exchanges) observer.reached?.(record, endpoint);
  }

  responded(record: ExchangeRecord): void {
    for (const observer of this.shared.exchanges) observer.responded?.(record);
  }

  ended(record: ExchangeRecord): void {
    this.own.ended?.(record);
    for (const observer of this.shared.exchanges) observer.ended?.(record);
  }
}
