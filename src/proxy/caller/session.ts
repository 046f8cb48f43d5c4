/**
 * One stream of a caller and its use: counted against limits, judged again whenever policy or
 * credentials change, served, and reported exactly once when it ends. A TCP or mutual TLS connection is
 * one session; a protocol that carries streams of its own may open many on one connection.
 *
 * @module
 */

import { type ErrorCode, networkOf, NO_PLACE } from "../../base/mod.ts";
import type { HeldAccount } from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
import type { CallerKind, PresentedPeer, Stream, StreamEvents } from "../../net/mod.ts";
import type { ConnectionLimiter } from "../core/admission.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionLimits, LiveConnection } from "../core/live_connections.ts";
import { ConnectionRecord, type Ending } from "../observe/connection_record.ts";
import type { ListenerStats } from "../observe/listener_stats.ts";
import type { ConnectionObserver } from "../observe/observers.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { ReachedLimit, RefusalReason } from "../observe/failure_summary.ts";

/** Authorization of a caller: by the intentions (`match`), by the agent as well (`both`), or none (`nobody`). */
export type AuthorizeMode = "match" | "both" | "nobody";

/** A listener as its connections see it. All of it may change while they are open. */
export interface ListenerFacts {
  readonly direction: "inbound" | "outbound";
  readonly name: string;
  /** Name of the service behind it, for logs. */
  readonly destination: string;
  readonly authorizeMode: AuthorizeMode;
  /** Callers that may connect: the local application alone, or any. */
  readonly callers: CallerKind;
  readonly stats: ListenerStats;
  readonly observers: Required<ConnectionObserver>;
  readonly places: ConnectionLimiter;
  readonly limits: ConnectionLimits;
  /** TLS that callers must speak; `null`: plain connections, as from the local application. */
  readonly tls: { readonly credentials: string | null; readonly handshakeTimeoutMs: number } | null;
  readonly context: Context;
  /** `null`: its connections carry bytes. */
  readonly http: HttpRules | null;
  /** Why it refuses every connection now; `""`: it does not. */
  readonly fault: string;
  /** Why a caller from that address is refused; absent: no address is. */
  barred?(remote: string): RefusalReason | undefined;
  /** Why a caller is refused while the limit of this listener or of the process is reached. */
  whyFull(remote: string): ReachedLimit;
  /** Protocols offered by ALPN, preferred first; empty: none. */
  readonly protocols: readonly string[];
  serve(session: Session): SessionService;
}

/** Serves the bytes of a session: relays them, or reads them as HTTP. */
export interface SessionService {
  start(stream: Stream): void;
  /**
   * After a change of policy or credentials: ends the session, or requests of it, that are not allowed any
   * more. Returns the number of those requests.
   */
  rejudge(): number;
  /** Once a second: ends what has taken too long. */
  sweep(): void;
  /** Takes no new requests; what is open goes on. */
  drain(): void;
  /** Ends the exchange longest without progress, since `since` if given; false: none was ended. */
  stopOldest(reason: string, since: number | undefined): boolean;
  /** The session is over: releases everything held for it. */
  leave(): void;
}

/** How long an end that we decided waits for a peer that does not read. */
const CLOSE_GRACE_MS = 500;

export interface SessionCarrier {
  readonly remote: string;
  /** Our end, `127.0.0.1:80`. */
  readonly local: string;
  /** The verified peer; `undefined`: a plain connection. */
  readonly peer: TrustedPeer | undefined;
  /** The peer's side of the handshake; `undefined`: a plaintext connection. */
  readonly presented: PresentedPeer | undefined;
  /** URI names of the certificate that the peer was shown, or would be now. */
  readonly ownUris: readonly string[];
  /** After a change of credentials or rules. False: the caller may not stay, and the session has ended. */
  judgeAgain(session: Session): boolean;
  /** Breaks the connection: no session has a stream on it yet. */
  reset(): void;
  left(session: Session): void;
}

/** Key of a caller in memory accounts and shares: its identity, or the network of its address. */
export function callerKey(
  { direction }: Pick<ListenerFacts, "direction">,
  peer: Pick<TrustedPeer, "uri"> | undefined,
  remote: string,
): string {
  return `${direction} ${peer?.uri ?? networkOf(remote)}`;
}

export class Session implements LiveConnection {
  place = NO_PLACE;
  readonly caller: SessionCarrier;
  readonly context: Context;
  readonly record: ConnectionRecord;
  readonly #listener: ListenerFacts;
  /** Absent until the handshake is done. */
  #stream: Stream | undefined;
  #early: EarlyBytes | undefined;
  /** The limiter that counts it: the listener may have another one when the session ends. */
  #countedIn: ConnectionLimiter | undefined;
  #service: SessionService | undefined;
  #account: HeldAccount | undefined;
  #ended = false;
  #endCode: ErrorCode | undefined;

  constructor(caller: SessionCarrier, listener: ListenerFacts) {
    const { context } = listener;
    this.caller = caller;
    this.context = context;
    this.#listener = listener;
    this.record = new ConnectionRecord(listener, caller.remote, context.clock.monotonic());
    // Callers of an upstream are the local application, unless TLS gives them another name.
    if (listener.direction === "outbound") {
      this.record.source = this.record.caller = context.facts.service;
    }
    listener.observers.began(this.record);
  }

  get stats(): ListenerStats {
    return this.#listener.stats;
  }

  get limits(): ConnectionLimits {
    return this.#listener.limits;
  }

  get observers(): Required<ConnectionObserver> {
    return this.#listener.observers;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get endCode(): ErrorCode | undefined {
    return this.#endCode;
  }

  get peer(): TrustedPeer | undefined {
    return this.caller.peer;
  }

  /** Memory held for it. Opened on first use, when the caller is identified. */
  get account(): HeldAccount {
    return this.#account ??= this.context.held.open(
      callerKey(this.#listener, this.peer, this.record.remote),
      {
        stopOldest: (reason, since) => {
          const isStopped = this.#service?.stopOldest(reason, since) ?? false;
          if (isStopped) this.stats.stoppedExchange(this.context.clock.monotonic());
          return isStopped;
        },
      },
    );
  }

  /** Keeps what the stream brings until {@link Session.release}. */
  hold(stream: Stream): void {
    this.#stream = stream;
    this.#early = new EarlyBytes(stream, this);
  }

  /** Hands the bytes that were kept to the stream's new events, and lets it run. */
  release(): void {
    this.#early?.release();
    this.#early = undefined;
  }

  serve(stream: Stream): void {
    this.record.served = true;
    this.#service = this.#listener.serve(this);
    this.#service.start(stream);
  }

  /** Counts it against the limits. False: a limit is reached, and the session has ended. */
  takePlace(): boolean {
    const { processLimit } = this.context;
    const { places } = this.#listener;
    if (processLimit.enter()) {
      if (places.enter(this.record.remote)) {
        this.#countedIn = places;
        return true;
      }
      processLimit.leave();
    }
    this.refuse();
    return false;
  }

  refuse(): void {
    const { code, reason, limit } = this.#listener.whyFull(this.record.remote);
    this.stats.refusedFull(limit, reason, this.context.clock.monotonic());
    this.end(code, reason);
  }

  rejudge(): number {
    if (this.#ended || !this.caller.judgeAgain(this)) return 0;
    return this.#service?.rejudge() ?? 0;
  }

  sweep(): void {
    this.#service?.sweep();
    this.#account?.endStuck();
  }

  drain(): void {
    this.#service?.drain();
  }

  /** `how`: `reset` frees at once what is queued for the peer. */
  end(code: ErrorCode, reason: string, how: "close" | "reset" = "close"): void {
    if (this.#ended) return;
    this.#endCode = code;
    const { relay } = this.record;
    const stream = this.#stream;
    // Left first: closing calls the stream's events, which must find the session over.
    this.leave({ kind: "failed", code, reason, by: relay && "proxy" });
    if (relay) {
      relay.stop("close");
      this.context.deadlines.after(CLOSE_GRACE_MS, () => relay.stop("reset"));
      // A sidecar gets an orderly end; an application must not take an empty answer for an answer.
    } else if (how === "close" && stream && this.#listener.direction === "inbound") {
      stream.close();
      this.context.deadlines.after(CLOSE_GRACE_MS, () => stream.reset());
    } else if (stream) stream.reset();
    else this.caller.reset();
  }

  /** Its stream is over: counts and reports it. */
  leave(ending: Ending): void {
    if (this.#ended) return;
    this.#ended = true;
    const { processLimit, live } = this.context;
    this.caller.left(this);
    this.#service?.leave();
    if (this.#countedIn) {
      processLimit.leave();
      this.#countedIn.leave(this.record.remote);
    }
    live.delete(this);
    this.#listener.observers.ended(this.record, ending);
  }
}

/** Most callers send less and wait for a response; pausing each of them would cost more. */
const HOLD_BYTES = 64 * 1024;

/**
 * Keeps the bytes of a connection while the other side is not connected yet: a request or two, after which
 * the connection is paused. If it breaks meanwhile, its session ends.
 */
class EarlyBytes implements StreamEvents {
  readonly #connection: Stream;
  readonly #session: Session;
  readonly #chunks: Uint8Array[] = [];
  #heldBytes = 0;
  #paused = false;
  #ended = false;

  constructor(connection: Stream, session: Session) {
    this.#connection = connection;
    this.#session = session;
    connection.events = this;
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#paused || this.#heldBytes < HOLD_BYTES) return;
    this.#paused = true;
    this.#connection.pause();
  }

  onEnd(): void {
    this.#ended = true;
  }

  onDrain(): void {}

  onClose(): void {
    this.#session.end("downstream_reset", "closed early");
  }

  release(): void {
    const { events } = this.#connection;
    if (this.#paused) this.#connection.resume();
    for (const chunk of this.#chunks) events.onData(chunk);
    if (this.#ended) events.onEnd();
  }
}
