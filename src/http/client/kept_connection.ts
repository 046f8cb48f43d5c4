/** One HTTP connection to a server, kept between requests. @module */

import type { Clock, Deadlines } from "../../base/mod.ts";
import type { Stream } from "../../net/mod.ts";
import type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  HttpLimits,
  ResponseEvents,
} from "../exchange.ts";
import { openHttp1Client } from "../h1/client_connection.ts";
import { type KeepAliveOptions, openHttp2Client } from "../h2/client.ts";
import type { RequestHead } from "../head.ts";
import type { HeldShare } from "../held_bytes.ts";

export type ClientVersion = "h1" | "h2";

export interface Reached {
  readonly stream: Stream;
  /** The protocol selected by ALPN; absent or `""`: none. */
  readonly protocol?: string;
}

export interface ClientCodecOptions {
  /** The version to use without ALPN. */
  readonly version: ClientVersion;
  readonly limits: HttpLimits;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  /** PING, for HTTP/2; absent: none is sent. */
  readonly keepAlive?: KeepAliveOptions;
}

/** The pool, as its connections use it. */
export interface ConnectionOwner<R extends Reached> {
  began(): void;
  /** The room for requests has changed. */
  changed(connection: KeptConnection<R>): void;
  closed(connection: KeptConnection<R>, end: HttpEnd): void;
}

/** A request that meets the end of its connection is lost: the connection is retired earlier. */
const AHEAD_MS = 1_000;
/** Time for the peer to read the last frames before the socket is reset. */
const LINGER_MS = 1_000;

export class KeptConnection<R extends Reached> implements ClientEvents {
  readonly reached: R;
  readonly client: ClientConnection;
  /** It has carried a request: its peer may close it at any time. */
  isUsed = false;
  /** It is in its pool's list of connections with room. */
  isListed = false;
  /** Part of a response came since the pool's last check. */
  heard = false;
  /** Consecutive checks that found open requests and nothing received. */
  silentLooks = 0;
  readonly #owner: ConnectionOwner<R>;
  readonly #options: ClientCodecOptions;
  /** HTTP/2 ends before its stream does; HTTP/1.1 reports the end of the stream. */
  readonly #lingers: boolean;
  #usedMs: number;

  constructor(owner: ConnectionOwner<R>, reached: R, options: ClientCodecOptions) {
    this.#owner = owner;
    this.#options = options;
    this.reached = reached;
    this.#usedMs = options.clock.monotonic();
    const { protocol = "" } = reached;
    const isHttp2 = protocol === "" ? options.version === "h2" : protocol === "h2";
    this.#lingers = isHttp2;
    const open = isHttp2 ? openHttp2Client : openHttp1Client;
    this.client = open(reached.stream, { ...options, events: this });
  }

  request(
    head: RequestHead,
    { ends, held }: { readonly ends: boolean; readonly held?: HeldShare | undefined },
    events: ResponseEvents,
  ): ClientExchange {
    this.isUsed = true;
    this.#owner.began();
    return this.client.request(head, ends, events, held);
  }

  /** The server's `Keep-Alive` timeout is near: it may be about to end the connection. */
  get isStale(): boolean {
    const { keptMs, active } = this.client;
    if (keptMs === Infinity || active > 0) return false;
    return this.idleMs >= Math.max(keptMs - AHEAD_MS, keptMs / 2);
  }

  /** Time since the last request ended; 0 while one is open. */
  get idleMs(): number {
    return this.client.active > 0 ? 0 : this.#options.clock.monotonic() - this.#usedMs;
  }

  onCapacity(): void {
    if (this.client.active === 0) this.#usedMs = this.#options.clock.monotonic();
    this.#owner.changed(this);
  }

  onClose(end: HttpEnd): void {
    const { stream } = this.reached;
    if (this.#lingers) this.#options.deadlines.after(LINGER_MS, () => stream.reset());
    this.#owner.closed(this, end);
  }
}
