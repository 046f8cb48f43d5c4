/**
 * The caller's side of a connection, whichever listener it came to: refused before a byte is read where
 * there is no room, a handshake where the listener asks for one, what the caller proves by it. Then it is
 * handed to what serves that listener. Every connection is left and reported here, exactly once.
 *
 * @module
 */

import { type Deadline, type ErrorCode, networkOf, NO_PLACE } from "../../base/mod.ts";
import type { HeldAccount } from "../../http/mod.ts";
import type { ChainVerdict, TrustedPeer } from "../../identity/mod.ts";
import type { AcceptedConnection, AcceptStrain, Connection, PresentedPeer } from "../../net/mod.ts";
import type { ConnectionLimiter } from "../core/admission.ts";
import { ConnectionRecord, type ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import { type Ending, reportEnd } from "../observe/ending.ts";
import type { HandshakeOwner } from "../core/handshakes.ts";
import { EarlyBytes } from "../core/early_bytes.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { ConnectionLimits, LiveConnection } from "../core/live_connections.ts";
import { PeerVerdicts } from "../trust/peer_verdicts.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { TrustContext } from "../trust/trust_context.ts";

/** A listener as its connections see it; what it says may change while they live. */
export interface ListenerFacts {
  readonly direction: "inbound" | "outbound";
  readonly name: string;
  /** Where its callers want to go, for people. */
  readonly destination: string;
  readonly stats: ListenerStats;
  readonly places: ConnectionLimiter;
  readonly limits: ConnectionLimits;
  /** TLS that callers must speak; `null`: they speak plainly, as a local app does. */
  readonly tls: {
    readonly credentials: string | null;
    readonly handshakeTimeoutMs: number;
  } | null;
  readonly context: Context;
  /** What its connections carry; `null`: bytes. */
  readonly http: HttpRules | null;
  /** Why it refuses every connection now; `""`: it does not. */
  readonly fault: string;
  /** Why the caller of that address may not call at all; absent: all may. */
  barred?(remote: string): RefusalReason | undefined;
  /** Why nobody is let in while its places, or those of the process, are taken. */
  whyFull(remote: string): RefusalReason;
  /** Offered by ALPN; empty: none. */
  readonly protocols: readonly string[];
  /** What the connection of a caller that was let in is for. */
  serve(downstream: Downstream): ConnectionService;
}

/** What goes on behind one caller. */
export interface ConnectionService {
  start(connection: Connection): void;
  /** Judges it by what is true now; ends the downstream where it may not go on. */
  rejudge(): void;
  /** Once a second: ends what has taken too long. */
  sweep(): void;
  /** No new requests, where it has such; what is under way goes on. */
  drain(): void;
  /**
   * Ends the exchange that has made no progress for the longest time, to give back the memory that it
   * takes; `since`: only if it made none after that. False: there is none.
   */
  stopOldest(reason: string, since: number | undefined): boolean;
  /** The caller has left: everything held for it is given back. */
  leave(): void;
}

const NO_CERTIFICATE = "no certificate yet";
/** How long a side that does not read may hold up an end that we decided. */
const CLOSE_GRACE_MS = 500;

/** Stands for all connections of an identity, or of an address. */
export function callerKey(
  { direction }: Pick<ListenerFacts, "direction">,
  peer: Pick<TrustedPeer, "uri"> | undefined,
  remote: string,
): string {
  return `${direction} ${peer?.uri ?? networkOf(remote)}`;
}

export class Downstream implements LiveConnection, HandshakeOwner {
  place = NO_PLACE;
  readonly record: ConnectionRecord;
  readonly context: Context;
  readonly #front: ListenerFacts;
  readonly #caller: AcceptedConnection | Connection;
  #deadline: Deadline | undefined;
  #connection: Connection | undefined;
  #presentation: PeerVerdicts | undefined;
  #presented: PresentedPeer | undefined;
  #peer: TrustedPeer | undefined;
  #holding: EarlyBytes | undefined;
  /** Where it has taken a place; the listener may count elsewhere by the time it leaves. */
  #places: ConnectionLimiter | undefined;
  #service: ConnectionService | undefined;
  #account: HeldAccount | undefined;
  #ended = false;

  constructor(front: ListenerFacts, caller: AcceptedConnection | Connection) {
    const { context } = front;
    this.context = context;
    this.#front = front;
    this.#caller = caller;
    this.record = new ConnectionRecord(front, caller.remote, context.clock.monotonic());
    // The local application, unless it has to say who it is.
    if (front.direction === "outbound") this.record.source = context.facts.service;
  }

  get stats(): ListenerStats {
    return this.#front.stats;
  }

  get limits(): ConnectionLimits {
    return this.#front.limits;
  }

  /** What is held in memory for it; asked for once it is known who it is. */
  get account(): HeldAccount {
    return this.#account ??= this.context.held.open(
      callerKey(this.#front, this.#peer, this.record.remote),
      {
        stopOldest: (reason, since) => {
          const isStopped = this.#service?.stopOldest(reason, since) ?? false;
          if (isStopped) this.#front.stats.stoppedExchange(this.context.clock.monotonic());
          return isStopped;
        },
      },
    );
  }

  /** Who it has proven to be; undefined: it speaks plainly. */
  get peer(): TrustedPeer | undefined {
    return this.#peer;
  }

  /** What it showed in its handshake; undefined: it speaks plainly. */
  get presented(): PresentedPeer | undefined {
    return this.#presented;
  }

  /** URI names of the certificate that it was shown, or would be now. */
  get ownUris(): readonly string[] {
    return this.#trust?.ownUris ?? [];
  }

  /** Takes a connection that has just come as far as it gets. */
  accept(): AcceptStrain {
    const { processLimit, live, handshakes } = this.context;
    const { stats, places } = this.#front;
    stats.opened.add(1);
    stats.active.add(1);
    if (processLimit.full || places.full) {
      this.#refuse();
      return "refused";
    }
    live.add(this);
    const caller = this.#caller;
    if (!("secure" in caller)) {
      this.#hold(caller);
      // Its listener may have changed while the address is still the old one's.
      this.rejudge();
      if (!this.#ended) this.#serve(caller);
      return "none";
    }
    // Places are for those who have proven who they are.
    const crowded = handshakes.begin(this);
    this.#shakeHands(caller);
    return crowded ? "crowded" : "none";
  }

  #shakeHands(caller: AcceptedConnection): void {
    const { deadlines, clock, handshakes } = this.context;
    const { tls, stats } = this.#front;
    this.record.stage = "handshake";
    const trust = this.#trust;
    const fault = trust ? trust.fault(clock.now()) : NO_CERTIFICATE;
    if (!tls || !trust || fault !== undefined) {
      if (trust?.material.missing.length) stats.secretsMissing.add(1);
      return this.end("not_ready", fault ?? NO_CERTIFICATE);
    }
    const timeoutMs = tls.handshakeTimeoutMs;
    this.#deadline = deadlines.after(timeoutMs, () => {
      this.end("handshake_timed_out", `not done after ${timeoutMs} ms`);
    });
    caller.secure(trust.server(caller.remote, this.#front.protocols), (outcome) => {
      this.#deadline?.cancel();
      handshakes.over(this);
      if (outcome.kind === "secured") return this.#identify(outcome.connection, outcome.peer);
      this.end(outcome.gone ? "closed_early" : "handshake_failed", outcome.reason);
    });
  }

  #identify(connection: Connection, presented: PresentedPeer): void {
    const { record } = this;
    const { direction, stats } = this.#front;
    record.stage = "identity";
    this.#hold(connection);
    this.#presented = presented;
    this.#presentation = new PeerVerdicts(presented, "client", this.context.clock);
    // The facts of now, not those that the handshake began with.
    const peer = this.#proven(this.#presentation.judge(this.#trust));
    if (!peer) return;
    record.serverName = presented.serverName;
    if (direction === "outbound") record.source = peer.name;
    else {
      record.source = peer.verified ? peer.name : `unverified ${peer.name}`;
      record.secured(presented, stats);
    }
    this.#serve(connection);
  }

  #serve(connection: Connection): void {
    this.#service = this.#front.serve(this);
    this.#service.start(connection);
  }

  /** Keeps what it says until {@link Downstream.release}. */
  #hold(connection: Connection): void {
    this.#connection = connection;
    this.#holding = new EarlyBytes(connection, this);
  }

  /** Hands what it has said to the connection's new events, and lets it run. */
  release(): void {
    this.#holding?.release();
    this.#holding = undefined;
  }

  /** Before anything is waited for on its behalf. False: there is no place, and it has ended. */
  takePlace(): boolean {
    const { processLimit } = this.context;
    const { places } = this.#front;
    if (processLimit.enter()) {
      if (places.enter(this.record.remote)) {
        this.#places = places;
        return true;
      }
      processLimit.leave();
    }
    this.#refuse();
    return false;
  }

  #refuse(): void {
    const { code, reason } = this.#front.whyFull(this.record.remote);
    this.#front.stats.refusedFull(reason, this.context.clock.monotonic());
    this.end(code, reason);
  }

  rejudge(): void {
    if (this.#ended) return;
    if (!("secure" in this.#caller)) {
      // Let in when its listener asked nobody to speak TLS.
      if (this.#front.tls) return this.end("identity_invalid", "its listener asks for TLS now");
      const barred = this.#front.barred?.(this.record.remote);
      if (barred) return this.end(barred.code, barred.reason);
    } else {
      // One that still shakes hands is judged when that is done.
      const presentation = this.#presentation;
      if (!presentation || !this.#proven(presentation.judgeAgain(this.#trust))) return;
    }
    this.#service?.rejudge();
  }

  /** Whom it has proven to be by the facts of now; undefined: it may not stay, and has ended. */
  #proven(verdict: ChainVerdict | undefined): TrustedPeer | undefined {
    if (verdict?.kind === "trusted") return this.#peer = verdict;
    this.end(verdict?.code ?? "not_ready", verdict?.reason ?? NO_CERTIFICATE);
    return undefined;
  }

  get #trust(): TrustContext | undefined {
    const { tls } = this.#front;
    return tls ? this.context.facts.trusts.of(tls.credentials) : undefined;
  }

  sweep(): void {
    this.#service?.sweep();
    this.#account?.endStuck();
  }

  drain(): void {
    this.#service?.drain();
  }

  /** `how`: `reset` gives back at once what it holds in memory. */
  end(code: ErrorCode, reason: string, how: "close" | "reset" = "close"): void {
    if (this.#ended) return;
    const { relay } = this.record;
    const connection = this.#connection;
    // Left first: closing tells the connection's events, which must find it over.
    this.leave({ kind: "failed", code, reason, by: relay && "proxy" });
    if (relay) {
      relay.stop("close");
      this.context.deadlines.after(CLOSE_GRACE_MS, () => relay.stop("reset"));
      // A sidecar is answered in an orderly way; an application must not take nothing for an answer.
    } else if (how === "close" && connection && this.#front.direction === "inbound") {
      connection.close();
      this.context.deadlines.after(CLOSE_GRACE_MS, () => connection.reset());
    } else (connection ?? this.#caller).reset();
  }

  /** It is over, and nobody has to be told any more. */
  leave(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    const { processLimit, handshakes, live, log, sums, clock } = this.context;
    const { stats } = this.#front;
    this.#deadline?.cancel();
    handshakes.over(this);
    this.#service?.leave();
    if (this.#places) {
      processLimit.leave();
      this.#places.leave(this.record.remote);
    }
    live.delete(this);
    const nowMs = clock.monotonic();
    reportEnd(this.record, ending, { log, stats, sums, nowMs });
    this.#logAccess(ending, nowMs);
  }

  /** Of HTTP its exchanges have lines of their own, once they can be served. */
  #logAccess(ending: Ending, monotonicMs: number): void {
    const { facts: { accessLog }, clock } = this.context;
    if (!accessLog) return;
    const isOwn = this.#front.http === null || !this.#service && accessLog.part.listeners;
    if (isOwn) accessLog.connection(this.record, ending, { wallMs: clock.now(), monotonicMs });
  }
}
