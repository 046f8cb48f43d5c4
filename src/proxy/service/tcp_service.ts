/**
 * One connection for another: a caller with a permit and the endpoint that was dialled for it are relayed to
 * each other, until either ends it or may not go on.
 *
 * @module
 */

import { type Connection, type Dial, Relay, type RelayEnd } from "../../net/mod.ts";
import { runConnectionHooks } from "../caller/connection_hooks.ts";
import type { AttemptHandler } from "../upstream/attempt.ts";
import { authorize, type AuthorizeMode, mayGoOn, type Permit } from "../caller/authorize.ts";
import type { ClusterStats } from "../observe/cluster_stats.ts";
import type { ConnectionService, Downstream } from "../caller/downstream.ts";
import { endingOf } from "../observe/ending.ts";
import type { ProvenEndpoint } from "../upstream/endpoint_dial.ts";
import type { LocalEndpoint } from "../upstream/local_dial.ts";
import { isRefusal } from "../upstream/peer_refusals.ts";

/** What a listener says of where its connections go. */
export interface TcpDestination {
  readonly authorizer: AuthorizeMode;
  /** Of the local application, where connections go there. */
  readonly localStats?: ClusterStats | undefined;
  /** For a caller from there. */
  dial(dialler: AttemptHandler<ProvenEndpoint | LocalEndpoint>, remote: string): Dial;
}

export class TcpService implements ConnectionService {
  readonly #downstream: Downstream;
  readonly #destination: TcpDestination;
  #dial: Dial | undefined;
  #proven: ProvenEndpoint | undefined;
  /** While a connection is open behind it. */
  #counted: ClusterStats | undefined;
  #over = false;

  constructor(downstream: Downstream, destination: TcpDestination) {
    this.#downstream = downstream;
    this.#destination = destination;
  }

  start(connection: Connection): void {
    const by = this.#destination.authorizer;
    const downstream = this.#downstream;
    const onPermit = (permit: Permit) =>
      runConnectionHooks(downstream, () => this.#connect(permit));
    authorize(downstream, { by, connection, onPermit });
  }

  #connect(permit: Permit): void {
    if (this.#over) return;
    const { record } = this.#downstream;
    this.#dial = this.#destination.dial({
      record,
      onDialled: (endpoint) => this.#relay(permit, endpoint),
      onFailed: (code, reason) => {
        this.#destination.localStats?.failed(code);
        this.#downstream.end(code, reason);
      },
    }, record.remote);
  }

  #relay(permit: Permit, endpoint: ProvenEndpoint | LocalEndpoint): void {
    const { record, context } = this.#downstream;
    this.#dial = undefined;
    if ("lease" in endpoint) this.#proven = endpoint;
    this.#counted = this.#proven?.lease.target.stats ?? this.#destination.localStats;
    this.#counted?.opened();
    record.stage = "relay";
    if (context.facts.accessLog) {
      record.local = permit.connection.local;
      record.upstreamLocal = endpoint.connection.local;
      record.cluster = this.#proven?.lease.target.cluster ?? "";
    }
    record.relay = new Relay(permit.connection, endpoint.connection, {
      ticker: context.live,
      held: this.#downstream.account,
      onOver: (end) => this.#ended(end),
    });
    this.#downstream.release();
  }

  #ended(end: RelayEnd): void {
    const { context: { clock }, record: { relay } } = this.#downstream;
    const proven = this.#proven;
    proven?.ended(end.kind === "reset" ? end.by : end.first, relay?.sentBytes ?? 0);
    this.#downstream.leave(
      proven && relay && isRefusal(relay, end)
        ? proven.group.upstream.refusals.ending(end, clock.monotonic())
        : endingOf(end),
    );
  }

  rejudge(): void {
    if (!mayGoOn(this.#downstream, this.#destination.authorizer)) return;
    const fault = this.#proven?.fault();
    if (fault !== undefined) this.#downstream.end("endpoint_untrusted", fault);
  }

  sweep(): void {}

  drain(): void {}

  stopOldest(reason: string, since: number | undefined): boolean {
    // Its connection is the one exchange that there is.
    if (since !== undefined || this.#over) return false;
    this.#downstream.record.relay?.stop("reset");
    this.#downstream.end("overloaded", reason);
    return true;
  }

  leave(): void {
    this.#over = true;
    this.#dial?.cancel();
    const { relay } = this.#downstream.record;
    if (relay) this.#counted?.ended(relay);
    this.#counted = undefined;
    this.#proven?.release();
  }
}
