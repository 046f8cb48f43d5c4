/**
 * A caller of an upstream's listener that must speak TLS: shakes hands, and is let in by the rules of
 * that listener alone; intentions are about callers of the local service.
 *
 * @module
 */

import type { Deadline, ErrorCode } from "../base/mod.ts";
import type { AcceptedConnection, Connection, PresentedPeer, Strain } from "../net/mod.ts";
import type { ConnectionRecord } from "./connection.ts";
import type { Context } from "./context.ts";
import type { Handshake } from "./handshakes.ts";
import type { Trust } from "./trust.ts";
import type { Upstream } from "./upstream.ts";

/** The connection that the caller wants. */
export interface CallerOwner {
  readonly record: ConnectionRecord;
  /** The caller has proven what it had to. */
  admit(connection: Connection): void;
  end(code: ErrorCode, reason: string): void;
}

export class SecureCaller {
  readonly #context: Context;
  readonly #upstream: Upstream;
  readonly #accepted: AcceptedConnection;
  #connection: Connection | undefined;
  #deadline: Deadline | undefined;
  #handshake: Handshake | undefined;
  #presented: PresentedPeer | undefined;

  constructor(context: Context, upstream: Upstream, accepted: AcceptedConnection) {
    this.#context = context;
    this.#upstream = upstream;
    this.#accepted = accepted;
  }

  /** Ends with `owner.admit()` or `owner.end()`. */
  handshake(owner: CallerOwner): Strain {
    const { crowded } = this.#handshake = this.#context.handshakes.begin(owner);
    this.#shakeHands(owner);
    return crowded ? "crowded" : "none";
  }

  #shakeHands(owner: CallerOwner): void {
    const { deadlines, clock } = this.#context;
    const { listener } = this.#upstream.part;
    owner.record.stage = "handshake";
    const trust = this.#trust;
    const fault = trust ? trust.fault(clock.now()) : "no certificate yet";
    if (!listener || !trust || fault !== undefined) {
      if (trust?.material.missing.length) this.#upstream.stats.secretsMissing.add(1);
      return owner.end("not_ready", fault ?? "no certificate yet");
    }
    const timeoutMs = listener.handshakeTimeoutMs;
    this.#deadline = deadlines.after(timeoutMs, () => {
      owner.end("handshake_timed_out", `not done after ${timeoutMs} ms`);
    });
    this.#accepted.secure(trust.server(this.#accepted.remote), (outcome) => {
      this.leave();
      if (outcome.kind === "failed") {
        return owner.end(outcome.gone ? "closed_early" : "handshake_failed", outcome.reason);
      }
      this.#identify(outcome.connection, outcome.peer, owner);
    });
  }

  #identify(connection: Connection, presented: PresentedPeer, owner: CallerOwner): void {
    const { record } = owner;
    this.#connection = connection;
    record.stage = "identity";
    // The facts of now, not those that the handshake began with.
    const verdict = this.#trust?.verify(presented, "client", record.verified(this.#context.clock));
    if (verdict?.kind !== "trusted") {
      return owner.end(verdict?.code ?? "not_ready", verdict?.reason ?? "no certificate yet");
    }
    record.source = verdict.name;
    this.#presented = presented;
    owner.admit(connection);
  }

  /** Ends the owner if the caller may not stay by the facts of now. */
  rejudge(owner: CallerOwner): void {
    if (!this.#presented) return;
    const since = owner.record.sinceVerified(this.#context.clock);
    const verdict = this.#trust?.verifyAgain(this.#presented, "client", since);
    if (verdict?.kind === "trusted") return;
    owner.end(verdict?.code ?? "not_ready", verdict?.reason ?? "no certificate yet");
  }

  /** Nothing is waited for any more. */
  leave(): void {
    this.#deadline?.cancel();
    this.#handshake?.over();
  }

  reset(): void {
    if (this.#connection) this.#connection.reset();
    else this.#accepted.reset();
  }

  get #trust(): Trust | undefined {
    const { listener } = this.#upstream.part;
    return listener ? this.#context.facts.trusts.of(listener.credentials) : undefined;
  }
}
