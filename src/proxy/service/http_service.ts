/**
 * A caller's connection that carries HTTP: finds out which version, and makes an exchange of each request.
 *
 * @module
 */

import { Bag } from "../../base/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  ExchangeRecord,
  type HttpEnd,
  type HttpVersion,
  serveHttp1,
  serveHttp2,
  type ServerConnection,
  type ServerEvents,
  type ServerExchange,
} from "../../http/mod.ts";
import type { Connection, StreamEvents } from "../../net/mod.ts";
import { runConnectionHooks } from "../caller/connection_hooks.ts";
import {
  authorizeWithAgent,
  isDeniedAll,
  judgeOfPath,
  judgeOfRequests,
  type RequestJudge,
} from "../caller/authorize.ts";
import type { OpenRequests, SweepTime } from "../observe/connection_record.ts";
import type { ConnectionService, Downstream } from "../caller/downstream.ts";
import type { Ending } from "../observe/ending.ts";
import { DownstreamInfo } from "./downstream_info.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { RequestsView } from "../observe/view.ts";
import { type ExchangeHost, HttpExchange } from "./http_exchange.ts";
import { noteInvalid } from "./invalid_request.ts";
import { logFailedRequest } from "./log_failed_request.ts";
import type { HttpListener } from "./http_listener.ts";

/** How long a caller without a request has to leave. */
const LEAVE_MS = 10_000;
/** For how long one that may ask for nothing is told so before it has to leave: places are for others. */
const DENIED_MS = 10_000;
/** Requests of one connection that are shown one by one. */
const SHOWN = 100;

export class HttpService implements ConnectionService, ServerEvents, ExchangeHost, OpenRequests {
  readonly downstream: Downstream;
  readonly listener: HttpListener;
  readonly caller: DownstreamInfo;
  readonly #open = new Bag<HttpExchange>();
  #total = 0;
  #version: HttpVersion = "HTTP/1.1";
  #server: ServerConnection | undefined;
  #judge: RequestJudge | undefined;
  #draining: boolean;
  /** In a row, with no request open; while it may ask for nothing. */
  #idleSweeps = 0;
  #deniedSweeps = 0;
  /** In a row, with the same head begun. */
  #headSweeps = 0;
  #openHead = 0;
  #sniffer: Sniffer | undefined;
  /** Of now. */
  #isDenied: boolean | undefined;
  #left = false;

  constructor(downstream: Downstream, listener: HttpListener) {
    this.downstream = downstream;
    this.listener = listener;
    this.caller = new DownstreamInfo(downstream);
    const { draining, drainingInbound } = downstream.context.facts;
    this.#draining = draining || drainingInbound && listener.front.direction === "inbound";
  }

  start(connection: Connection): void {
    const { downstream } = this;
    const { facts } = downstream.context;
    // Who it is has been judged; what it may is asked of each request.
    if (!downstream.takePlace()) return;
    this.caller.connection = connection;
    // The connection remembers it, and once it is closed it cannot be found out.
    if (facts.accessLog || facts.plugins) void connection.local;
    const onAllowed = () => runConnectionHooks(downstream, () => this.#begin(connection));
    authorizeWithAgent(downstream, this.listener.authorizer, onAllowed);
  }

  #begin(connection: Connection): void {
    const { downstream } = this;
    if (this.#left) return;
    downstream.record.stage = "http";
    const protocol = downstream.presented?.protocol ?? "";
    if (protocol === "") {
      this.#sniffer = new Sniffer(connection, (isHttp2) => this.#serve(connection, isHttp2));
    } else this.#serve(connection, protocol === "h2");
    downstream.release();
  }

  #serve(connection: Connection, isHttp2: boolean): void {
    const { context: { deadlines, clock }, record } = this.downstream;
    this.#sniffer = undefined;
    this.#version = isHttp2 ? "HTTP/2" : "HTTP/1.1";
    record.requests = this;
    const serve = isHttp2 ? serveHttp2 : serveHttp1;
    this.#server = serve(connection, {
      limits: { ...DEFAULT_HTTP_LIMITS, headBytes: this.listener.rules().headBytes },
      events: this,
      deadlines,
      clock,
      account: this.downstream.account,
    });
    if (this.#draining) this.drain();
  }

  onRequest(exchange: ServerExchange): void {
    this.#idleSweeps = 0;
    this.#total++;
    const own = new HttpExchange(this, exchange);
    this.#open.add(own);
    own.start();
  }

  onInvalid(status: number, detail: string): void {
    const { clock, facts } = this.downstream.context;
    const monotonicMs = clock.monotonic();
    const story = new ExchangeRecord(this.caller, undefined, { wallMs: clock.now(), monotonicMs });
    noteInvalid(story, { version: this.#version, status, detail });
    story.endedBy = "downstream";
    story.endAt = monotonicMs;
    this.listener.stats.started();
    this.listener.stats.finished(story);
    facts.accessLog?.exchange(story);
    logFailedRequest(this.downstream, { code: "request_invalid", reason: detail }, { status });
  }

  onClose(end: HttpEnd): void {
    this.downstream.leave(endingOf(end));
  }

  /** The exchange is over. */
  over(exchange: HttpExchange): void {
    this.#open.delete(exchange);
  }

  /** Of now. */
  get judge(): RequestJudge {
    const { authorizer, exposed } = this.listener;
    return this.#judge ??= exposed
      ? judgeOfPath(exposed)
      : judgeOfRequests(this.downstream, authorizer);
  }

  rejudge(): void {
    this.#judge = undefined;
    this.#isDenied = undefined;
    for (const exchange of this.#open.all()) exchange.rejudge();
  }

  sweep(): void {
    this.#isDenied ??= isDeniedAll(this.downstream, this.listener.authorizer);
    this.#deniedSweeps = this.#isDenied ? this.#deniedSweeps + 1 : 0;
    const deniedMs = this.#deniedSweeps * this.downstream.context.live.tickMs;
    if (deniedMs > DENIED_MS) {
      return this.#askToLeave(deniedMs - DENIED_MS, {
        code: "intention_denied",
        reason: "it may ask for nothing",
      });
    }
    if (this.#sweepHead()) return;
    if (this.#open.size === 0) return this.#sweepIdle();
    this.#idleSweeps = 0;
    for (const exchange of this.#open.all()) exchange.sweep();
  }

  /** Without a request, be it that the head of one does not come to its end. */
  #sweepIdle(): void {
    const { idleTimeoutMs } = this.listener.front.limits;
    const idleMs = ++this.#idleSweeps * this.downstream.context.live.tickMs;
    if (idleTimeoutMs === 0 || idleMs <= idleTimeoutMs) return;
    const reason = `no request for ${idleTimeoutMs} ms`;
    this.#askToLeave(idleMs - idleTimeoutMs, { code: "idle_timed_out", reason });
  }

  /** The head of a request has the time that a request has for a byte. True: that is over. */
  #sweepHead(): boolean {
    const { streamIdleTimeoutMs } = this.listener.rules();
    const { openHead = 0 } = this.#server ?? this.#sniffer ?? {};
    if (openHead !== this.#openHead) this.#headSweeps = 0;
    this.#openHead = openHead;
    if (openHead === 0) return false;
    const headMs = this.#headSweeps++ * this.downstream.context.live.tickMs;
    if (streamIdleTimeoutMs === 0 || headMs < streamIdleTimeoutMs) return false;
    this.downstream.end("idle_timed_out", `no whole head within ${streamIdleTimeoutMs} ms`);
    return true;
  }

  /** In the order that the protocol has for it, and then at once. */
  #askToLeave(sinceMs: number, { code, reason }: RefusalReason): void {
    if (this.#server && sinceMs <= LEAVE_MS) this.drain();
    else this.downstream.end(code, reason);
  }

  stopOldest(reason: string, since: number | undefined): boolean {
    let oldest: HttpExchange | undefined;
    for (const exchange of this.#open.all()) {
      const { bytes, progress } = exchange.held;
      if (bytes === 0 || oldest && oldest.held.progress <= progress) continue;
      oldest = exchange;
    }
    if (oldest) {
      if (since !== undefined && oldest.held.progress > since) return false;
      oldest.stop(reason);
      return true;
    }
    if (since !== undefined || this.#left || this.#open.size > 0) return false;
    // What waits is the rest of an exchange that is over.
    this.downstream.end("overloaded", reason, "reset");
    return true;
  }

  view(now: SweepTime): RequestsView {
    const all = this.#open.all().map((exchange) => exchange.view(now));
    const oldest = all.sort((one, other) => other.ageMs - one.ageMs).slice(0, SHOWN);
    const idleMs = this.#idleSweeps * now.tickMs;
    return { version: this.#version, open: this.#open.size, total: this.#total, idleMs, oldest };
  }

  drain(): void {
    this.#draining = true;
    this.#server?.drain();
  }

  leave(): void {
    this.#left = true;
    for (const exchange of this.#open.all()) exchange.abandon();
  }
}

/** Of a connection: which version of HTTP is spoken where no handshake has settled it (RFC 9113 3.3). */
class Sniffer implements StreamEvents {
  readonly #connection: Connection;
  readonly #decide: (isHttp2: boolean) => void;
  #chunks: Uint8Array[] = [];
  #seen = 0;

  constructor(connection: Connection, decide: (isHttp2: boolean) => void) {
    this.#connection = connection;
    this.#decide = decide;
    connection.events = this;
  }

  /** As {@link ServerConnection.openHead}. */
  get openHead(): number {
    return this.#seen > 0 ? 1 : 0;
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    for (const byte of chunk) {
      if (byte !== PREFACE.charCodeAt(this.#seen)) return this.#over(false);
      if (++this.#seen === PREFACE.length) return this.#over(true);
    }
  }

  #over(isHttp2: boolean): void {
    this.#decide(isHttp2);
    for (const chunk of this.#chunks) this.#connection.events.onData(chunk);
  }

  onEnd(): void {
    this.#over(false);
    this.#connection.events.onEnd();
  }

  onDrain(): void {}

  onClose(reset: boolean, alert: string): void {
    this.#decide(false);
    this.#connection.events.onClose(reset, alert);
  }
}

/** No method of HTTP/1.1 begins so; the codec looks at the rest. */
const PREFACE = "PRI ";

function endingOf({ by, kind, detail }: HttpEnd): Ending {
  switch (kind) {
    case "closed":
      return { kind: "completed", by: by === "us" ? "upstream" : "downstream" };
    case "reset":
      return { kind: "failed", code: "downstream_reset", reason: detail };
    case "protocol":
      return { kind: "failed", code: "request_invalid", reason: detail };
    case "flood":
      return { kind: "failed", code: "downstream_flooded", reason: detail };
    case "timed_out":
      return { kind: "failed", code: "idle_timed_out", reason: detail };
  }
}
