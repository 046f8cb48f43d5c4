/**
 * One connection for another: a caller with a permit and the endpoint that was dialled for it are relayed to
 * each other, until either ends it or may not go on.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
import type { TrustedPeer } from "../identity/mod.ts";
import { type Connection, type Dial, Relay, type RelayEnd } from "../net/mod.ts";
import type { Dialler, ProvenEndpoint } from "./attempt.ts";
import { type Applicant, authorize, type Authorizer, mayGoOn, type Permit } from "./authorize.ts";
import { type ConnectionRecord, endingOf } from "./connection.ts";
import type { Downstream, Service } from "./downstream.ts";
import type { LocalEndpoint } from "./local_dial.ts";
import { isRefusal } from "./refusal.ts";

/** What a listener says of where its connections go. */
export interface Destination {
  readonly authorizer: Authorizer;
  /** For a caller from there. */
  dial(dialler: Dialler<ProvenEndpoint | LocalEndpoint>, remote: string): Dial;
}

export class L4 implements Service, Applicant {
  readonly connection: Connection;
  readonly #downstream: Downstream;
  readonly #destination: Destination;
  #dial: Dial | undefined;
  #proven: ProvenEndpoint | undefined;
  #over = false;

  constructor(downstream: Downstream, connection: Connection, destination: Destination) {
    this.connection = connection;
    this.#downstream = downstream;
    this.#destination = destination;
  }

  get record(): ConnectionRecord {
    return this.#downstream.record;
  }

  get peer(): TrustedPeer | undefined {
    return this.#downstream.peer;
  }

  start(): void {
    authorize(this, this.#destination.authorizer, this.#downstream.context);
  }

  onAllowed(): boolean {
    return this.#downstream.takePlace();
  }

  onPermit(permit: Permit): void {
    if (this.#over) return;
    const { record } = this;
    this.#dial = this.#destination.dial({
      record,
      onDialled: (endpoint) => this.#relay(permit, endpoint),
      onFailed: (code, reason) => this.end(code, reason),
    }, record.remote);
  }

  #relay(permit: Permit, endpoint: ProvenEndpoint | LocalEndpoint): void {
    const { record, context } = this.#downstream;
    this.#dial = undefined;
    if ("lease" in endpoint) this.#proven = endpoint;
    record.stage = "relay";
    record.relay = new Relay(permit.connection, endpoint.connection, {
      ticker: context.live,
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
        ? proven.group.refusals.ending(end, clock.monotonic())
        : endingOf(end),
    );
  }

  rejudge(): void {
    if (!mayGoOn(this, this.#destination.authorizer, this.#downstream.context)) return;
    const fault = this.#proven?.fault();
    if (fault !== undefined) this.end("endpoint_untrusted", fault);
  }

  end(code: ErrorCode, reason: string): void {
    this.#downstream.end(code, reason);
  }

  leave(): void {
    this.#over = true;
    this.#dial?.cancel();
    this.#proven?.release();
  }
}
