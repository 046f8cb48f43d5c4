/** Serves a downstream connection that carries HTTP: an exchange for each request. @module */

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
  VersionSniffer,
} from "../../http/mod.ts";
import type { Stream } from "../../net/mod.ts";
import {
  admit,
  isDeniedAll,
  judgeOfPath,
  judgeOfRequests,
  type RequestJudge,
} from "../caller/authorize.ts";
import type { Ending, OpenRequests, SweepTime } from "../observe/connection_record.ts";
import type { Session, SessionService } from "../caller/session.ts";
import { DownstreamInfo } from "./exchange_value.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import type { RequestsView } from "../observe/view.ts";
import { type ExchangeHost, HttpExchange } from "./http_exchange.ts";
import { logFailedRequest, noteInvalid } from "./failed_request.ts";
import type { HttpListener } from "./stages.ts";

/** How long a caller may take to close a connection that it was asked to close. */
const LEAVE_MS = 10_000;
/** How long a caller that is denied everything keeps its connection: places are for others. */
const DENIED_MS = 10_000;
const DENIED = { code: "intention_denied", reason: "every request of it is denied" } as const;
/** Time that a connection without a request, which is drained, waits for one; as for an idle one of HTTP/1.1. */
const UNUSED_MS = 1_000;
/** Requests of one connection that a view lists. */
const SHOWN = 100;

export class HttpService implements SessionService, ServerEvents, ExchangeHost, OpenRequests {
  readonly session: Session;
  readonly listener: HttpListener;
  readonly caller: DownstreamInfo;
  readonly #open = new Bag<HttpExchange>();
  #total = 0;
  #version: HttpVersion = "HTTP/1.1";
  #server: ServerConnection | undefined;
  #judge: RequestJudge | undefined;
  #draining: boolean;
  /** Sweeps in a row without an open request, and during which every request would be denied. */
  #idleSweeps = 0;
  #deniedSweeps = 0;
  /** Sweeps in a row since the same head began. */
  #headSweeps = 0;
  #openHead = 0;
  #sniffer: VersionSniffer | undefined;
  /** Whether the policy in force denies every request; `undefined`: not known yet. */
  #isDenied: boolean | undefined;
  #left = false;

  constructor(session: Session, listener: HttpListener) {
    this.session = session;
    this.listener = listener;
    this.caller = new DownstreamInfo(session);
    const { draining, drainingInbound } = session.context.facts;
    this.#draining = draining || drainingInbound && listener.facts.direction === "inbound";
  }

  start(stream: Stream): void {
    const { session } = this;
    const { facts } = session.context;
    // Cannot be found out once the connection is closed.
    if (facts.accessLog || facts.plugins) void session.caller.local;
    admit(session, {
      mode: this.listener.facts.authorizeMode,
      judged: "requests",
      onAdmitted: () => this.#begin(stream),
    });
  }

  #begin(stream: Stream): void {
    const { session } = this;
    if (this.#left) return;
    session.record.stage = "http";
    const protocol = session.caller.presented?.protocol ?? "";
    if (protocol === "") {
      this.#sniffer = new VersionSniffer(stream, (isHttp2) => this.#serve(stream, isHttp2));
      if (this.#draining) this.#leaveUnused();
    } else this.#serve(stream, protocol === "h2");
    session.release();
  }

  #serve(stream: Stream, isHttp2: boolean): void {
    const { context: { deadlines, clock }, record, account } = this.session;
    this.#sniffer = undefined;
    this.#version = isHttp2 ? "HTTP/2" : "HTTP/1.1";
    record.requests = this;
    const serve = isHttp2 ? serveHttp2 : serveHttp1;
    this.#server = serve(stream, {
      limits: { ...DEFAULT_HTTP_LIMITS, headBytes: this.listener.rules().headBytes },
      events: this,
      deadlines,
      clock,
      account,
    });
    if (this.#draining) this.drain();
  }

  onRequest(server: ServerExchange): void {
    this.#idleSweeps = 0;
    this.#total++;
    const exchange = new HttpExchange(this, server);
    this.#open.add(exchange);
    exchange.start();
  }

  onInvalid(status: number, detail: string): void {
    const { clock } = this.session.context;
    const monotonicMs = clock.monotonic();
    const record = new ExchangeRecord(this.caller, undefined, { wallMs: clock.now(), monotonicMs });
    noteInvalid(record, { version: this.#version, status, detail });
    record.endedBy = "downstream";
    record.endAt = monotonicMs;
    this.listener.observers.began(record);
    this.listener.observers.ended(record);
    logFailedRequest(this.session, { code: "request_invalid", reason: detail }, { status });
  }

  onClose(end: HttpEnd): void {
    this.session.leave(endingOf(end));
  }

  over(exchange: HttpExchange): void {
    this.#open.delete(exchange);
  }

  get judge(): RequestJudge {
    const { facts: { authorizeMode }, exposed } = this.listener;
    return this.#judge ??= exposed
      ? judgeOfPath(exposed)
      : judgeOfRequests(this.session, authorizeMode);
  }

  rejudge(): number {
    this.#judge = undefined;
    this.#isDenied = undefined;
    return this.#open.all().filter((exchange) => exchange.rejudge()).length;
  }

  sweep(): void {
    this.#isDenied ??= isDeniedAll(this.session, this.listener.facts.authorizeMode);
    this.#deniedSweeps = this.#isDenied ? this.#deniedSweeps + 1 : 0;
    const deniedMs = this.#deniedSweeps * this.session.context.live.tickMs;
    if (deniedMs > DENIED_MS) return this.#askToClose(deniedMs - DENIED_MS, DENIED);
    if (this.#sweepHead()) return;
    if (this.#open.size === 0) return this.#sweepIdle();
    this.#idleSweeps = 0;
    for (const exchange of this.#open.all()) exchange.sweep();
  }

  #sweepIdle(): void {
    const { idleTimeoutMs } = this.listener.facts.limits;
    const idleMs = ++this.#idleSweeps * this.session.context.live.tickMs;
    if (idleTimeoutMs === 0 || idleMs <= idleTimeoutMs) return;
    const reason = `no request for ${idleTimeoutMs} ms`;
    this.#askToClose(idleMs - idleTimeoutMs, { code: "idle_timed_out", reason });
  }

  /** A head must be complete within the idle timeout of requests. True: this one is not, and the session ends. */
  #sweepHead(): boolean {
    const { streamIdleTimeoutMs } = this.listener.rules();
    const { openHead = 0 } = this.#server ?? this.#sniffer ?? {};
    if (openHead !== this.#openHead) this.#headSweeps = 0;
    this.#openHead = openHead;
    if (openHead === 0) return false;
    const headMs = this.#headSweeps++ * this.session.context.live.tickMs;
    if (streamIdleTimeoutMs === 0 || headMs < streamIdleTimeoutMs) return false;
    this.session.end("idle_timed_out", `no whole head within ${streamIdleTimeoutMs} ms`);
    return true;
  }

  /** Closes as the protocol specifies (GOAWAY, `Connection: close`), later at once. */
  #askToClose(sinceMs: number, { code, reason }: RefusalReason): void {
    if (this.#server && sinceMs <= LEAVE_MS) this.drain();
    else this.session.end(code, reason);
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
    // The bytes are the rest of an exchange that is over.
    this.session.end("overloaded", reason, "reset");
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
    if (this.#sniffer) this.#leaveUnused();
  }

  /** The first request may be under way. A connection without any would last for the whole drain. */
  #leaveUnused(): void {
    this.session.context.deadlines.after(UNUSED_MS, () => {
      if (this.#left || this.#sniffer?.openHead !== 0) return;
      this.session.end("drained", `no request within ${UNUSED_MS} ms of draining`);
    });
  }

  leave(): void {
    this.#left = true;
    for (const exchange of this.#open.all()) exchange.abandon();
  }
}

const FAILURES = {
  reset: "downstream_reset",
  protocol: "request_invalid",
  flood: "downstream_flooded",
  timed_out: "idle_timed_out",
} as const;

function endingOf({ by, kind, detail }: HttpEnd): Ending {
  if (kind !== "closed") return { kind: "failed", code: FAILURES[kind], reason: detail };
  return { kind: "completed", by: by === "us" ? "upstream" : "downstream" };
}
