/**
 * Connections of HTTP to one endpoint, kept between requests. What waits for one is bounded by whoever
 * lets it wait; how many there are, by a limit that all endpoints of an upstream share.
 *
 * @module
 */

import type { Deadline, ErrorCode } from "../../base/mod.ts";
import {
  type ClientConnection,
  type ClientEvents,
  type ClientExchange,
  DEFAULT_HTTP_LIMITS,
  type HeldShare,
  type HttpEnd,
  openHttp1Client,
  openHttp2Client,
  type RequestHead,
  type ResponseEvents,
} from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { EndpointDialHandler, ProvenEndpoint } from "./endpoint_dial.ts";
import type { LocalEndpoint } from "./local_dial.ts";
import type { ConnectionStage } from "../observe/connection_record.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { HttpPoolStats } from "../observe/http_stats.ts";

export type CodecVersion = "h1" | "h2";

/** What a way may lead to: only the stages that prove or dial an endpoint make one. */
export type PooledEndpoint = ProvenEndpoint | LocalEndpoint;

/** How connections to the endpoint are made. */
export interface ConnectionPoolOptions {
  dial(dialler: EndpointDialHandler<PooledEndpoint>): Dial;
  /** Spoken where the handshake did not settle it. */
  readonly version: CodecVersion;
  readonly context: UpstreamContext;
  readonly stats: HttpPoolStats;
  /** Places for connections; `undefined`: as many as are needed. */
  readonly connections: SharedLimiter | undefined;
  /** Nothing comes from the endpoint, though requests are open: it may hang. */
  readonly onSilent?: () => void;
  /** What a request that waited too long is told. */
  readonly timedOut: "endpoint_timed_out" | "local_timed_out";
}

/** How many requests one HTTP/2 connection is taken to carry, until its server has said so. */
const EXPECTED_STREAMS = 100;
/** A connection that nobody used for so long is closed, and how often that is looked at. */
const IDLE_MS = 3_600_000;
const IDLE_CHECK_MS = 300_000;
/** So long before its server ends it, it is not used any more: a request that meets its end is lost. */
const AHEAD_MS = 1_000;
/** How often it is looked whether anything came, and how often nothing must have come. */
const LOOK_MS = 1_000;
const SILENT_LOOKS = 2;
/** How long a request waits for a connection with room, of which there may be no more. */
const MAX_WAIT_MS = 30_000;

/** One kept connection. */
export class PooledConnection implements ClientEvents {
  readonly endpoint: PooledEndpoint;
  /** `10.0.0.9:8080`. */
  readonly host: string;
  readonly client: ClientConnection;
  /** It has carried a request: its peer may close it at any time. */
  isUsed = false;
  /** Belongs to its {@link ConnectionPool}. */
  isListed = false;
  /** Something of a response came since it was last looked. */
  heard = false;
  /** How often in a row it was looked and nothing had come, though requests were open. */
  silentLooks = 0;
  readonly #ways: ConnectionPool;
  readonly #context: UpstreamContext;
  readonly #leave: () => void;
  #usedMs: number;
  #deadline: Deadline;

  /** `leave`: gives its place back. */
  constructor(ways: ConnectionPool, reached: PooledEndpoint, { host, version, context, leave }: {
    readonly host: string;
    readonly version: CodecVersion;
    readonly context: UpstreamContext;
    readonly leave: () => void;
  }) {
    this.#ways = ways;
    this.#context = context;
    this.#leave = leave;
    this.endpoint = reached;
    this.host = host;
    // The connection remembers it, and once it is closed it cannot be found out.
    if (context.facts.accessLog || context.facts.plugins) void reached.local;
    const { deadlines, clock } = context;
    this.#usedMs = clock.monotonic();
    this.#deadline = deadlines.after(IDLE_CHECK_MS, () => this.#checkIdle());
    const ask = version === "h2" ? openHttp2Client : openHttp1Client;
    this.client = ask(reached.stream, {
      limits: DEFAULT_HTTP_LIMITS,
      events: this,
      deadlines,
      clock,
    });
  }

  /** To be called for each request that it is used for. */
  request(
    head: RequestHead,
    { ends, held }: { readonly ends: boolean; readonly held: HeldShare | undefined },
    events: ResponseEvents,
  ): ClientExchange {
    this.isUsed = true;
    this.#ways.watch();
    return this.client.request(head, ends, events, held);
  }

  onCapacity(): void {
    const { active, capacity } = this.client;
    if (active === 0) {
      this.#usedMs = this.#context.clock.monotonic();
      // A server that says it takes no requests would be given one connection after the other to keep.
      if (capacity === 0) return this.client.drain();
    }
    this.#ways.changed(this);
  }

  /** Its server may be about to end it: it says for how long it keeps one without a request. */
  get isStale(): boolean {
    const { keptMs, active } = this.client;
    if (keptMs === Infinity || active > 0) return false;
    const idleMs = this.#context.clock.monotonic() - this.#usedMs;
    return idleMs >= Math.max(keptMs - AHEAD_MS, keptMs / 2);
  }

  #checkIdle(): void {
    const { clock, deadlines } = this.#context;
    const isIdle = this.client.active === 0 && clock.monotonic() - this.#usedMs >= IDLE_MS;
    if (isIdle) this.client.drain();
    else this.#deadline = deadlines.after(IDLE_CHECK_MS, () => this.#checkIdle());
  }

  onClose(_end: HttpEnd): void {
    this.#deadline.cancel();
    this.#leave();
    this.#ways.closed(this);
  }
}

interface Waiting {
  readonly dialler: EndpointDialHandler<PooledConnection>;
  readonly deadline: Deadline;
}

export class ConnectionPool {
  readonly #opening: ConnectionPoolOptions;
  readonly #all = new Set<PooledConnection>();
  /** With room for a request; the last used first, so that the others may idle out. */
  readonly #ready: PooledConnection[] = [];
  readonly #waiting = new Set<Waiting>();
  readonly #dials = new Set<Dial>();
  #over = false;
  #isWatched = false;

  constructor(opening: ConnectionPoolOptions) {
    this.#opening = opening;
  }

  get version(): CodecVersion {
    return this.#opening.version;
  }

  /** One that can carry a request at once, if there is. */
  ready(): PooledConnection | undefined {
    for (let way = this.#ready.at(-1); way; way = this.#ready.at(-1)) {
      const isFit = !way.isStale;
      if (isFit && way.client.capacity > 0) return way;
      way.isListed = false;
      this.#ready.pop();
      if (!isFit) way.client.drain();
    }
    return undefined;
  }

  /** Tells `dialler` of one with room, now or when there is; it must be used at once. */
  acquire(dialler: EndpointDialHandler<PooledConnection>): Dial {
    const way = this.ready();
    if (way) {
      dialler.onDialled(way);
      return NOTHING;
    }
    if (this.#over) {
      dialler.onFailed("no_endpoint", GONE);
      return NOTHING;
    }
    const { stats: { pending, pendingActive }, context } = this.#opening;
    const deadline = context.deadlines.after(MAX_WAIT_MS, () => this.#waitedLong(waiting));
    const waiting: Waiting = { dialler, deadline };
    this.#waiting.add(waiting);
    pending.add(1);
    pendingActive.add(1);
    this.#dialMore();
    return { cancel: () => this.#waitsNoMore(waiting) };
  }

  /** False: it did not any more. */
  #waitsNoMore(waiting: Waiting): boolean {
    if (!this.#waiting.delete(waiting)) return false;
    waiting.deadline.cancel();
    this.#opening.stats.pendingActive.add(-1);
    return true;
  }

  #waitedLong(waiting: Waiting): void {
    const [way] = this.#all;
    if (!this.#waitsNoMore(waiting)) return;
    const reason = `no connection had room for ${MAX_WAIT_MS} ms`;
    waiting.dialler.onFailed(this.#opening.timedOut, reason, way?.host);
  }

  #dialMore(): void {
    const { version } = this.#opening;
    const perDial = version === "h2" ? EXPECTED_STREAMS : 1;
    while (this.#dials.size * perDial < this.#waiting.size && this.#dialOne());
  }

  /** False: there is no place for another connection. */
  #dialOne(): boolean {
    const { connections, version, context, stats } = this.#opening;
    // As with Envoy, an endpoint that was picked gets one connection, whatever the limit says.
    const isFirst = this.#all.size === 0 && this.#dials.size === 0;
    const isCounted = connections === undefined || connections.enter();
    if (!isCounted && !isFirst) return false;
    const leave = () => {
      if (isCounted) connections?.leave();
    };
    const dialled: { dial?: Dial } = {};
    let isOver = false;
    const over = () => {
      isOver = true;
      if (dialled.dial) this.#dials.delete(dialled.dial);
    };
    const record = { stage: "dial" as ConnectionStage, endpoint: "", secured: () => {} };
    const dial = dialled.dial = this.#opening.dial({
      record,
      onDialled: (reached) => {
        over();
        if (this.#over) return leave(), reached.stream.reset();
        const agreed = "protocol" in reached ? reached.protocol : "";
        const spoken = agreed === "" ? version : agreed === "h2" ? "h2" : "h1";
        stats.connectionsOpened.add(1);
        stats.connectionsActive.add(1);
        const way = new PooledConnection(this, reached, {
          host: record.endpoint,
          version: spoken,
          context,
          leave() {
            stats.connectionsActive.add(-1);
            leave();
          },
        });
        this.#all.add(way);
        this.changed(way);
      },
      onFailed: (code, reason) => {
        over();
        leave();
        stats.connectFailures.add(1);
        if (TIMEOUTS.has(code)) stats.connectTimeouts.add(1);
        this.#failed(code, reason, record.endpoint);
      },
    });
    if (!isOver) this.#dials.add(dial);
    return true;
  }

  /** Those whose dial it would have been are told; the others wait for the other dials. */
  #failed(code: ErrorCode, reason: string, tried = ""): void {
    const share = Math.ceil(this.#waiting.size / (this.#dials.size + 1));
    let told = 0;
    for (const waiting of [...this.#waiting]) {
      if (told++ >= share) break;
      if (this.#waitsNoMore(waiting)) waiting.dialler.onFailed(code, reason, tried);
    }
  }

  /** It has room, or none any more. */
  changed(way: PooledConnection): void {
    if (way.client.capacity > 0 && !way.isListed) {
      way.isListed = true;
      this.#ready.push(way);
    }
    for (const waiting of this.#waiting) {
      const ready = this.ready();
      if (!ready) break;
      this.#waitsNoMore(waiting);
      waiting.dialler.onDialled(ready);
    }
  }

  closed(way: PooledConnection): void {
    if (!this.#all.delete(way)) return;
    const at = way.isListed ? this.#ready.indexOf(way) : -1;
    if (at >= 0) this.#ready.splice(at, 1);
    if (!this.#over) this.#dialMore();
  }

  /**
   * After every change of credentials: a server that may not be talked to any more is left at once, and
   * connections of another generation carry no new requests.
   */
  rejudge(): void {
    for (const { endpoint, client } of [...this.#all]) {
      if (!("fault" in endpoint)) continue;
      const fault = endpoint.fault();
      if (fault !== undefined) client.reset(fault);
      else if (!endpoint.isOfNow) client.drain();
    }
  }

  /** A request begins: whether anything comes is looked at for as long as any is open. */
  watch(): void {
    if (this.#isWatched || !this.#opening.onSilent) return;
    this.#isWatched = true;
    this.#opening.context.deadlines.after(LOOK_MS, () => this.#look());
  }

  #look(): void {
    this.#isWatched = false;
    let isHeard = false;
    let isSilent = false;
    let isOpen = false;
    for (const way of this.#all) {
      const active = way.client.active > 0;
      isOpen ||= active;
      isHeard ||= way.heard;
      way.silentLooks = active && !way.heard ? way.silentLooks + 1 : 0;
      way.heard = false;
      isSilent ||= way.silentLooks >= SILENT_LOOKS;
    }
    // One that answers on another connection does not hang.
    if (isSilent && !isHeard) this.#opening.onSilent?.();
    if (isOpen && !this.#over) this.watch();
  }

  /** Breaks all connections; their requests are told. */
  reset(detail: string): void {
    for (const { client } of [...this.#all]) client.reset(detail);
  }

  /** Connections that carry nothing at present. */
  closeIdle(): void {
    for (const { client } of [...this.#all]) if (client.active === 0) client.drain();
  }

  /** Nothing new is carried; what is open goes on. Whoever waits is told. */
  drain(): void {
    this.#over = true;
    for (const dial of this.#dials) dial.cancel();
    this.#dials.clear();
    this.#failed("no_endpoint", GONE);
    for (const way of [...this.#all]) way.client.drain();
  }
}

const GONE = "the endpoint is gone";
const TIMEOUTS: ReadonlySet<ErrorCode> = new Set(["endpoint_timed_out", "local_timed_out"]);
const NOTHING: Dial = { cancel: () => {} };
