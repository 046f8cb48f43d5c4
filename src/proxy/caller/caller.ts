/**
 * One connection that was accepted: secured where its listener speaks TLS, with the identity that its peer
 * proved. It opens a {@link Session} at once, which fails with it; what it carries later belongs to
 * sessions.
 *
 * @module
 */

import type { Deadline, ErrorCode } from "../../base/mod.ts";
import type { ChainVerdict, TrustedPeer } from "../../identity/mod.ts";
import type { AcceptedConnection, AcceptStrain, Connection, PresentedPeer } from "../../net/mod.ts";
import type { Context } from "../core/context.ts";
import type { HandshakeOwner } from "../core/handshakes.ts";
import { callerName, type ConnectionRecord } from "../observe/connection_record.ts";
import { PeerVerdicts, type TrustContext } from "../trust/trust_context.ts";
import { type ListenerFacts, Session, type SessionCarrier } from "./session.ts";

const NO_CERTIFICATE = "no certificate yet";

export class Caller implements HandshakeOwner, SessionCarrier {
  readonly remote: string;
  readonly #context: Context;
  readonly #listener: ListenerFacts;
  readonly #socket: AcceptedConnection | Connection;
  readonly #session: Session;
  #deadline: Deadline | undefined;
  #connection: Connection | undefined;
  #verdicts: PeerVerdicts | undefined;
  presented: PresentedPeer | undefined;
  peer: TrustedPeer | undefined;

  constructor(listener: ListenerFacts, socket: AcceptedConnection | Connection) {
    this.#context = listener.context;
    this.#listener = listener;
    this.#socket = socket;
    this.remote = socket.remote;
    this.#session = new Session(this, listener);
  }

  /** For the table of handshakes. */
  get record(): ConnectionRecord {
    return this.#session.record;
  }

  get ownUris(): readonly string[] {
    return this.#trust?.ownUris ?? [];
  }

  /** The connection caches it, and cannot find it out once closed. */
  get local(): string {
    return this.#connection?.local ?? "";
  }

  /** Takes a new connection as far as it gets without waiting. */
  accept(): AcceptStrain {
    const { processLimit, live, handshakes } = this.#context;
    const session = this.#session;
    if (processLimit.full || this.#listener.places.full) {
      session.refuse();
      return "refused";
    }
    live.add(session);
    const socket = this.#socket;
    if (!("secure" in socket)) {
      this.#connection = socket;
      this.record.caller ||= callerName(undefined);
      session.hold(socket);
      // The listener's rules may have changed while its old address is still open.
      session.rejudge();
      if (!session.ended) session.serve(socket);
      return "none";
    }
    // Places are for callers that have proved an identity.
    const crowded = handshakes.begin(this);
    this.#shakeHands(socket);
    return crowded ? "crowded" : "none";
  }

  end(code: ErrorCode, reason: string): void {
    this.#session.end(code, reason);
  }

  #shakeHands(socket: AcceptedConnection): void {
    const { deadlines, clock, handshakes } = this.#context;
    const { tls, stats, protocols } = this.#listener;
    this.record.stage = "handshake";
    const trust = this.#trust;
    const fault = trust ? trust.fault(clock.now()) : NO_CERTIFICATE;
    if (!tls || !trust || fault !== undefined) {
      if (trust?.material.missing.length) stats.metrics.secretsMissing.add(1);
      return this.end("not_ready", fault ?? NO_CERTIFICATE);
    }
    const timeoutMs = tls.handshakeTimeoutMs;
    this.#deadline = deadlines.after(timeoutMs, () => {
      this.end("handshake_timed_out", `not done after ${timeoutMs} ms`);
    });
    socket.secure(trust.server(socket.remote, protocols), (outcome) => {
      this.#deadline?.cancel();
      handshakes.over(this);
      if (outcome.kind === "secured") return this.#identify(outcome.connection, outcome.peer);
      this.end(outcome.gone ? "closed_early" : "handshake_failed", outcome.reason);
    });
  }

  #identify(connection: Connection, presented: PresentedPeer): void {
    const { record } = this;
    const { direction, stats } = this.#listener;
    record.stage = "identity";
    this.#connection = connection;
    this.#session.hold(connection);
    this.presented = presented;
    this.#verdicts = new PeerVerdicts(presented, "client", this.#context.clock);
    // Judged by the credentials in force now, not by those that the handshake began with.
    if (!this.#accept(this.#verdicts.judge(this.#trust), this.#session) || !this.peer) return;
    record.serverName = presented.serverName;
    // The local application, unless TLS proves another name.
    if (direction === "inbound" || this.peer.verified) record.caller = callerName(this.peer);
    if (direction === "outbound") record.source = this.peer.name;
    else {
      record.source = this.peer.verified ? this.peer.name : `unverified ${this.peer.name}`;
      record.secured(presented, stats.metrics);
    }
    this.#session.serve(connection);
  }

  judgeAgain(session: Session): boolean {
    if ("secure" in this.#socket) {
      // A handshake that is not done is judged when it is.
      return this.#verdicts !== undefined &&
        this.#accept(this.#verdicts.judgeAgain(this.#trust), session);
    }
    // Accepted when the listener spoke no TLS.
    if (this.#listener.tls) {
      session.end("identity_invalid", "its listener asks for TLS now");
      return false;
    }
    const barred = this.#listener.barred?.(this.remote);
    if (barred) session.end(barred.code, barred.reason);
    return barred === undefined;
  }

  #accept(verdict: ChainVerdict | undefined, session: Session): boolean {
    if (verdict?.kind === "trusted") {
      this.peer = verdict;
      return true;
    }
    session.end(verdict?.code ?? "not_ready", verdict?.reason ?? NO_CERTIFICATE);
    return false;
  }

  get #trust(): TrustContext | undefined {
    const { tls } = this.#listener;
    return tls ? this.#context.facts.trusts.of(tls.credentials) : undefined;
  }

  reset(): void {
    this.#socket.reset();
  }

  left(session: Session): void {
    if (session !== this.#session) return;
    this.#deadline?.cancel();
    this.#context.handshakes.over(this);
  }
}
