/**
 * A listener as the connections it accepted see it, and what serves them.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import type { ConnectionLimiter } from "../core/admission.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { ListenerStats } from "../observe/listener_stats.ts";
import type { ConnectionObserver } from "../observe/observers.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";

/** All of it may change while connections are open. */
export interface ListenerFacts {
  readonly direction: "inbound" | "outbound";
  readonly name: string;
  /** Name of the service behind it, for logs. */
  readonly destination: string;
  readonly stats: ListenerStats;
  readonly observers: Required<ConnectionObserver>;
  readonly places: ConnectionLimiter;
  readonly limits: ConnectionLimits;
  /** TLS that callers must speak; `null`: plain connections, as from the local application. */
  readonly tls: {
    readonly credentials: string | null;
    readonly handshakeTimeoutMs: number;
  } | null;
  readonly context: Context;
  /** `null`: its connections carry bytes. */
  readonly http: HttpRules | null;
  /** Why it refuses every connection now; `""`: it does not. */
  readonly fault: string;
  /** Why a caller from that address is refused; absent: no address is. */
  barred?(remote: string): RefusalReason | undefined;
  /** Why a caller is refused while the limit of this listener or of the process is reached. */
  whyFull(remote: string): RefusalReason;
  /** Protocols offered by ALPN, preferred first; empty: none. */
  readonly protocols: readonly string[];
}

/** Serves the bytes of a session: relays them, or reads them as HTTP. */
export interface SessionService {
  start(stream: Stream): void;
  /** After a change of policy or credentials: ends the session, or requests of it, that are not allowed any more. */
  rejudge(): void;
  /** Once a second: ends what has taken too long. */
  sweep(): void;
  /** Takes no new requests; what is open goes on. */
  drain(): void;
  /**
   * Ends the exchange that has made no progress for the longest time, to free its memory. With `since`,
   * only one without progress after that. False: none was ended.
   */
  stopOldest(reason: string, since: number | undefined): boolean;
  /** The session is over: releases everything held for it. */
  leave(): void;
}
