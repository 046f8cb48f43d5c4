/** Serves a session that carries bytes: dials an endpoint and relays both streams. @module */

import { type Dial, Relay, type RelayEnd, type Stream } from "../../net/mod.ts";
import { admit, isAllowed, type Permit } from "../caller/authorize.ts";
import type { AttemptHandler } from "../upstream/attempt.ts";
import type { ClusterStats } from "../observe/listener_stats.ts";
import type { AuthorizeMode, Session, SessionService } from "../caller/session.ts";
import { endingOf } from "../observe/connection_record.ts";
import type { LocalEndpoint, ProvenEndpoint } from "../upstream/endpoint_dial.ts";
import { isRefusal, refusalEnding } from "../upstream/endpoint_failure.ts";

export interface TcpDestination {
  readonly authorizeMode: AuthorizeMode;
  /** Counters of the local application; absent: connections go to an upstream. */
  readonly localStats?: ClusterStats | undefined;
  /** `remote`: address of the caller, which balancing may hash. */
  dial(handler: AttemptHandler<ProvenEndpoint | LocalEndpoint>, remote: string): Dial;
}

export class TcpService implements SessionService {
  readonly #session: Session;
  readonly #destination: TcpDestination;
  #dial: Dial | undefined;
  #proven: ProvenEndpoint | undefined;
  /** Set while a connection to the endpoint is open. */
  #counted: ClusterStats | undefined;
  #over = false;
  /** What the metrics have of this connection already. */
  #receivedBytes = 0;
  #sentBytes = 0;
  #receivedWaiting = 0;
  #sentWaiting = 0;

  constructor(session: Session, destination: TcpDestination) {
    this.#session = session;
    this.#destination = destination;
  }

  start(stream: Stream): void {
    admit(this.#session, {
      mode: this.#destination.authorizeMode,
      judged: "caller",
      onAdmitted: (permit) => this.#connect(permit, stream),
    });
  }

  #connect(permit: Permit, stream: Stream): void {
    if (this.#over) return;
    const { record } = this.#session;
    this.#dial = this.#destination.dial({
      record,
      onDialled: (endpoint) => this.#relay(permit, stream, endpoint),
      onFailed: (code, reason) => {
        this.#destination.localStats?.failed(code);
        this.#session.end(code, reason);
      },
    }, record.remote);
  }

  #relay(_permit: Permit, stream: Stream, endpoint: ProvenEndpoint | LocalEndpoint): void {
    const { record, context, caller } = this.#session;
    this.#dial = undefined;
    if ("lease" in endpoint) this.#proven = endpoint;
    this.#counted = this.#proven?.lease.target.stats ?? this.#destination.localStats;
    this.#counted?.opened();
    record.stage = "relay";
    if (context.facts.accessLog) {
      record.local = caller.local;
      record.upstreamLocal = endpoint.local;
      record.cluster = this.#proven?.lease.target.cluster ?? "";
    }
    record.relay = new Relay(stream, endpoint.stream, {
      ticker: context.live,
      held: this.#session.account,
      onOver: (end) => this.#ended(end),
    });
    this.#session.observers.reached(record, this.#proven?.lease);
    this.#session.release();
  }

  #ended(end: RelayEnd): void {
    const { context: { clock, refusals }, record } = this.#session;
    const { relay } = record;
    const proven = this.#proven;
    proven?.ended(end.kind === "reset" ? end.by : end.first, relay?.sentBytes ?? 0);
    if (!proven || !relay || !isRefusal(relay, end)) return this.#session.leave(endingOf(end));
    refusals.connection(record, proven.service || record.destination);
    const { group: { upstream } } = proven;
    this.#session.leave(
      refusalEnding(end, {
        refusals: upstream.refusals,
        nowMs: clock.monotonic(),
        caller: record.caller,
      }),
    );
  }

  rejudge(): number {
    if (!isAllowed(this.#session, this.#destination.authorizeMode)) return 0;
    const fault = this.#proven?.fault();
    if (fault !== undefined) this.#session.end("endpoint_untrusted", fault);
    return 0;
  }

  sweep(): void {
    const { relay } = this.#session.record;
    if (relay) this.#count(relay, relay.waitingOf("downstream"), relay.waitingOf("upstream"));
  }

  drain(): void {}

  stopOldest(reason: string, since: number | undefined): boolean {
    // The connection is its only exchange.
    if (since !== undefined || this.#over) return false;
    this.#session.record.relay?.stop("reset");
    this.#session.end("overloaded", reason);
    return true;
  }

  leave(): void {
    this.#over = true;
    this.#dial?.cancel();
    const { relay } = this.#session.record;
    if (relay) this.#count(relay, 0, 0);
    this.#counted?.ended();
    this.#counted = undefined;
    this.#proven?.release();
  }

  /** Once a second and at the end: connections of databases stay open for days. */
  #count({ receivedBytes, sentBytes }: Relay, receivedWaiting: number, sentWaiting: number): void {
    const { metrics } = this.#session.stats;
    const received = receivedBytes - this.#receivedBytes;
    const sent = sentBytes - this.#sentBytes;
    if (received > 0 || sent > 0) {
      metrics.receivedBytes.add(received);
      metrics.sentBytes.add(sent);
      this.#counted?.moved(received, sent);
    }
    metrics.receivedWaiting.add(receivedWaiting - this.#receivedWaiting);
    metrics.sentWaiting.add(sentWaiting - this.#sentWaiting);
    this.#receivedBytes = receivedBytes;
    this.#sentBytes = sentBytes;
    this.#receivedWaiting = receivedWaiting;
    this.#sentWaiting = sentWaiting;
  }
}
