/**
 * The public listener: other sidecars connect here to reach the local service. Read
 * {@link InboundConnection} from top to bottom to follow a connection through its stages; each stage
 * takes what the one before it proved, so none can be left out.
 *
 * @module
 */

import { type Deadline, type ErrorCode, formatAddress, messageOf } from "../base/mod.ts";
import type { TrustedPeer } from "../identity/mod.ts";
import {
  type AcceptedConnection,
  type Connection,
  type Dial,
  type PresentedPeer,
  Relay,
  type Strain,
} from "../net/mod.ts";
import { authorize, type Source } from "../policy/mod.ts";
import type { InboundPart } from "../snapshot/mod.ts";
import type { Limiter } from "./admission.ts";
import {
  ConnectionRecord,
  type Ending,
  endingOf,
  type ListenerStats,
  reportEnd,
  stopSoon,
} from "./connection.ts";
import type { Context } from "./context.ts";
import type { Handshake } from "./handshakes.ts";
import { Holding } from "./holding.ts";
import type { LiveConnection } from "./live.ts";

/** Settings shared by the connections of one inbound listener; replaced live. */
export interface InboundState {
  part: InboundPart;
  readonly limit: Limiter;
  readonly stats: ListenerStats;
  idleTimeoutMs: number;
  lifetimeMs: number;
}

/** A peer whose certificate our own check trusts. */
interface Peer {
  readonly connection: Connection;
  readonly presented: PresentedPeer;
  /** Undefined: not trusted, and about to be closed. */
  readonly proven: TrustedPeer | undefined;
}

/** The proof that a peer may connect to the local service; only `#authorize` makes one. */
interface Permit {
  readonly connection: Connection;
  readonly rule: string;
}

export class InboundConnection implements LiveConnection {
  readonly record: ConnectionRecord;
  readonly #context: Context;
  readonly #state: InboundState;
  readonly #accepted: AcceptedConnection;
  #deadline: Deadline | undefined;
  #handshake: Handshake | undefined;
  #placed = false;
  #peer: Peer | undefined;
  #holding: Holding | undefined;
  #dial: Dial | undefined;
  #ended = false;

  /** Takes a connection that was just accepted as far as it gets. */
  static start(context: Context, state: InboundState, accepted: AcceptedConnection): Strain {
    return new InboundConnection(context, state, accepted).#accept();
  }

  private constructor(context: Context, state: InboundState, accepted: AcceptedConnection) {
    this.#context = context;
    this.#state = state;
    this.#accepted = accepted;
    this.record = new ConnectionRecord({
      direction: "inbound",
      listener: "inbound",
      remote: accepted.remote,
      openedMs: context.clock.monotonic(),
    });
    this.record.destination = context.facts.service;
  }

  get idleTimeoutMs(): number {
    return this.#state.idleTimeoutMs;
  }

  get lifetimeMs(): number {
    return this.#state.lifetimeMs;
  }

  /** Refused before any byte is read where there is no place to be had. */
  #accept(): Strain {
    const { processLimit, handshakes, live } = this.#context;
    const { stats, limit } = this.#state;
    stats.opened.add(1);
    stats.active.add(1);
    if (processLimit.full || limit.full) {
      this.#refuse(this.#whyFull);
      return "refused";
    }
    live.add(this);
    // Places are for those who have proven who they are.
    const { crowded } = this.#handshake = handshakes.begin(this);
    this.#shakeHands();
    return crowded ? "crowded" : "none";
  }

  get #whyFull(): string {
    const { limit } = this.#context.processLimit;
    const { part, limit: inbound } = this.#state;
    if (!inbound.full) return `the process holds ${limit} connections`;
    if (part.maxConnections === inbound.limit) return `max_inbound_connections is ${inbound.limit}`;
    return `${inbound.limit} of ${limit} connections are inbound; the rest is kept for upstreams`;
  }

  #takePlace(): boolean {
    const { processLimit } = this.#context;
    if (!processLimit.enter()) return false;
    this.#placed = this.#state.limit.enter();
    if (!this.#placed) processLimit.leave();
    return this.#placed;
  }

  #shakeHands(): void {
    const { facts, deadlines, clock } = this.#context;
    this.record.stage = "handshake";
    const { part, stats } = this.#state;
    const trust = facts.trusts.of(part.credentials);
    const fault = trust ? trust.fault(clock.now()) : "no certificate yet";
    if (!trust || fault !== undefined) {
      if (trust?.material.missing.length) stats.secretsMissing.add(1);
      return this.end("not_ready", fault ?? "no certificate yet");
    }
    const timeoutMs = part.handshakeTimeoutMs;
    this.#deadline = deadlines.after(timeoutMs, () => {
      this.end("handshake_timed_out", `not done after ${timeoutMs} ms`);
    });
    this.#accepted.secure(trust.server(this.#accepted.remote), (outcome) => {
      this.#deadline?.cancel();
      this.#handshake?.over();
      if (outcome.kind === "failed") {
        return this.#finish(outcome.gone ? "closed_early" : "handshake_failed", outcome.reason);
      }
      this.#identify(outcome.connection, outcome.peer);
    });
  }

  #identify(connection: Connection, presented: PresentedPeer): void {
    const { facts, clock } = this.#context;
    this.record.stage = "identity";
    this.#holding = new Holding(connection, () => this.#finish("downstream_reset", "closed early"));
    // The facts of now, not those that the handshake began with.
    const trust = facts.trusts.of(this.#state.part.credentials);
    const verdict = trust?.verify(presented, "client", this.record.verified(clock));
    if (verdict?.kind !== "trusted") {
      this.#peer = { connection, presented, proven: undefined };
      return this.end(verdict?.code ?? "not_ready", verdict?.reason ?? "no certificate yet");
    }
    this.record.source = verdict.verified ? verdict.name : `unverified ${verdict.name}`;
    this.record.resumed = presented.resumed;
    this.record.tlsVersion = presented.version;
    if (presented.resumed) this.#state.stats.resumed.add(1);
    this.#peer = { connection, presented, proven: verdict };
    this.#authorize(connection, verdict);
  }

  #authorize(connection: Connection, peer: TrustedPeer): void {
    const { facts, remoteAuthorize } = this.#context;
    this.record.stage = "authorize";
    if (!facts.policy) return this.end("not_ready", "no intentions yet");
    const verdict = authorize(sourceOf(peer), facts.policy);
    this.record.rule = verdict.rule;
    if (verdict.kind === "deny") return this.end("intention_denied", verdict.rule);
    if (!this.#takePlace()) return this.end("overloaded", this.#whyFull);
    const permit: Permit = { connection, rule: verdict.rule };
    if (this.#state.part.authorize === "match") return this.#connect(permit);
    remoteAuthorize({ target: facts.service, uri: peer.uri, serial: peer.serial }).then(
      ({ allowed, reason }) => {
        if (this.#ended) return;
        if (allowed) this.#connect(permit);
        else this.end("intention_denied", `agent: ${reason}`);
      },
      (error: unknown) => this.end("authorize_failed", messageOf(error)),
    );
  }

  #connect(permit: Permit): void {
    const { engine, deadlines } = this.#context;
    const { local, localConnectTimeoutMs } = this.#state.part;
    this.record.stage = "dial";
    this.record.endpoint = formatAddress(local);
    this.#deadline = deadlines.after(localConnectTimeoutMs, () => {
      this.end(
        "local_timed_out",
        `no connection to ${formatAddress(local)} after ${localConnectTimeoutMs} ms`,
      );
    });
    this.#dial = engine.dial({ address: local }, {
      onConnected: (upstream) => {
        this.#deadline?.cancel();
        this.#dial = undefined;
        this.#relay(permit, upstream);
      },
      onFailed: (_stage, reason) => {
        this.#dial = undefined;
        const where = formatAddress(local);
        this.end("local_refused", `Cannot dial the service at ${where}: ${reason}; does it run?`);
      },
    });
  }

  #relay(permit: Permit, upstream: Connection): void {
    this.record.stage = "relay";
    this.record.relay = new Relay(permit.connection, upstream, {
      ticker: this.#context.live,
      onOver: (end) => this.#leave(endingOf(end)),
    });
    this.#holding?.release();
    this.#holding = undefined;
  }

  rejudge(): void {
    const { facts, clock } = this.#context;
    const peer = this.#peer;
    if (this.#ended || !peer?.proven) return;
    const trust = facts.trusts.of(this.#state.part.credentials);
    const since = this.record.sinceVerified(clock);
    const trusted = trust?.verifyAgain(peer.presented, "client", since);
    if (trusted?.kind !== "trusted") {
      return this.end(trusted?.code ?? "not_ready", trusted?.reason ?? "no certificate yet");
    }
    if (!facts.policy) return this.end("not_ready", "no intentions yet");
    const verdict = authorize(sourceOf(trusted), facts.policy);
    this.record.rule = verdict.rule;
    if (verdict.kind === "deny") this.end("intention_denied", verdict.rule);
  }

  end(code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    // Left first: closing tells the connection's events, which must find it over.
    this.#leave({ kind: "failed", code, reason, by: this.record.relay && "proxy" });
    if (this.record.relay) stopSoon(this.record.relay, this.#context.deadlines);
    else if (this.#peer) this.#peer.connection.close();
    else this.#accepted.reset();
  }

  /** The downstream is gone already. */
  #finish(code: ErrorCode, reason: string): void {
    if (this.#ended) return;
    this.#leave({ kind: "failed", code, reason });
    this.#accepted.reset();
  }

  #leave(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deadline?.cancel();
    this.#handshake?.over();
    this.#dial?.cancel();
    if (this.#placed) {
      this.#context.processLimit.leave();
      this.#state.limit.leave();
    }
    this.#context.live.delete(this);
    this.#report(ending);
  }

  /** No place: nothing was taken, so nothing is given back. */
  #refuse(reason: string): void {
    this.#ended = true;
    this.#accepted.reset();
    this.#report({ kind: "failed", code: "overloaded", reason });
  }

  #report(ending: Ending): void {
    const { log, sums, clock } = this.#context;
    const { stats } = this.#state;
    reportEnd(this.record, ending, { log, stats, sums, nowMs: clock.monotonic() });
  }
}

/** What nobody vouches for is a claim: such a peer has only what the default gives. */
function sourceOf(peer: TrustedPeer): Source {
  return peer.verified ? peer : NOBODY;
}

const NOBODY: Source = { id: undefined, uri: "" };
