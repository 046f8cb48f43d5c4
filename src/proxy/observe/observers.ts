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

/** Those that take an event. */
type ByEvent<Observer> = {
  readonly [Event in keyof Observer]-?: readonly (Observer & Required<Pick<Observer, Event>>)[];
};

/** Observers of every listener, by event: one that does not take an event costs it nothing. */
export interface Observers {
  readonly connections: ByEvent<ConnectionObserver>;
  readonly exchanges: ByEvent<ExchangeObserver>;
}

/** Replaced when an observer is added or removed. */
export function observersOf(
  connections: readonly ConnectionObserver[],
  exchanges: readonly ExchangeObserver[],
): Observers {
  return {
    connections: {
      began: taking(connections, "began"),
      admitted: taking(connections, "admitted"),
      reached: taking(connections, "reached"),
      ended: taking(connections, "ended"),
    },
    exchanges: {
      began: taking(exchanges, "began"),
      admitted: taking(exchanges, "admitted"),
      reached: taking(exchanges, "reached"),
      responded: taking(exchanges, "responded"),
      ended: taking(exchanges, "ended"),
    },
  };
}

function taking<Observer, Event extends keyof Observer>(
  observers: readonly Observer[],
  event: Event,
): (Observer & Required<Pick<Observer, Event>>)[] {
  const takes = (one: Observer): one is Observer & Required<Pick<Observer, Event>> =>
    one[event] !== undefined;
  return observers.filter(takes);
}

export const NO_OBSERVERS: Observers = observersOf([], []);

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
    for (const observer of this.shared.connections.began) observer.began(record);
  }

  admitted(record: ConnectionRecord): void {
    for (const observer of this.shared.connections.admitted) observer.admitted(record);
  }

  reached(record: ConnectionRecord, endpoint?: ReachedEndpoint): void {
    for (const observer of this.shared.connections.reached) observer.reached(record, endpoint);
  }

  ended(record: ConnectionRecord, ending: Ending): void {
    this.own.ended?.(record, ending);
    for (const observer of this.shared.connections.ended) observer.ended(record, ending);
  }
}

export class ExchangeObservers extends ListenerObservers<ExchangeObserver>
  implements Required<ExchangeObserver> {
  began(record: ExchangeRecord): void {
    this.own.began?.(record);
    for (const observer of this.shared.exchanges.began) observer.began(record);
  }

  admitted(record: ExchangeRecord): void {
    for (const observer of this.shared.exchanges.admitted) observer.admitted(record);
  }

  reached(record: ExchangeRecord, endpoint?: ReachedEndpoint): void {
    this.own.reached?.(record, endpoint);
    for (const observer of this.shared.exchanges.reached) observer.reached(record, endpoint);
  }

  responded(record: ExchangeRecord): void {
    for (const observer of this.shared.exchanges.responded) observer.responded(record);
  }

  ended(record: ExchangeRecord): void {
    this.own.ended?.(record);
    for (const observer of this.shared.exchanges.ended) observer.ended(record);
  }
}
