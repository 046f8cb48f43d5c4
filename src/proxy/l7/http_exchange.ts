/**
 * One request of a caller and its response: judged, given a way to an endpoint, carried both ways, counted.
 * It is the place that both sides of an exchange tell what happens, and where it ends, exactly once.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import {
  type ClientExchange,
  type Fields,
  forwardClientCert,
  forwardRequest,
  type MessageEvents,
  normalizePath,
  REDIRECT,
  replyOf,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
  ruleUnderscores,
  sendReply,
  type ServerExchange,
} from "../../http/mod.ts";
import { type Dial, Relay, type RelayEnd } from "../../net/mod.ts";
import type { Dialler } from "../attempt.ts";
import type { Authorizer, RequestJudge, RequestPermit } from "../authorize.ts";
import type { Downstream, Front } from "../downstream.ts";
import { countFailure } from "../endpoint_failure.ts";
import type { HttpRules } from "../../snapshot/mod.ts";
import { giveBack, type Lease } from "../upstream.ts";
import type { Caller } from "./caller.ts";
import type { RequestWays } from "./request_ways.ts";
import type { Way } from "./ways.ts";

/** Requests that may be sent again where nobody answered (RFC 9110 9.2.2), if their body is still whole. */
const IDEMPOTENT: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "OPTIONS",
  "TRACE",
  "PUT",
  "DELETE",
]);
/** How often a request is sent again because the connection that was kept for it had just ended. */
const MAX_AGAIN = 2;

/** What the requests of one listener have in common. */
export interface HttpListener {
  readonly front: Front;
  readonly authorizer: Authorizer;
  readonly ways: RequestWays;
  /** Those in force. */
  rules(): HttpRules;
}

/** The connection that an exchange came on. */
export interface ExchangeOwner {
  readonly downstream: Downstream;
  readonly listener: HttpListener;
  readonly caller: Caller;
  /** Of now. */
  readonly judge: RequestJudge;
  over(exchange: HttpExchange): void;
}

export class HttpExchange implements MessageEvents, Dialler<Way> {
  readonly #service: ExchangeOwner;
  readonly #server: ServerExchange;
  readonly record = { stage: "target" as const, endpoint: "", secured: () => {} };
  readonly #response: Response;
  #permit: RequestPermit | undefined;
  #dial: Dial | undefined;
  #way: Way | undefined;
  #lease: Lease | undefined;
  #client: ClientExchange | undefined;
  #relay: Relay | undefined;
  #activeTick: number;
  #startedMs: number;
  #entered = false;
  /** Something of the request's body was sent on, so that it cannot be sent again. */
  #bodySent = false;
  #requestEnded: boolean;
  #responded = false;
  #again = 0;
  #over = false;

  constructor(service: ExchangeOwner, server: ServerExchange) {
    this.#service = service;
    this.#server = server;
    this.#response = new Response(this);
    this.#requestEnded = server.endsWithHead;
    const { live, clock } = service.downstream.context;
    this.#activeTick = live.tick;
    this.#startedMs = clock.monotonic();
    server.events = this;
  }

  start(): void {
    const { listener } = this.#service;
    const rules = listener.rules();
    const { request } = this.#server;
    const path = request.path === "" ? "" : normalizePath(request.path, rules.path);
    if (typeof path !== "string") {
      if (path.status === 400) return this.fail("request_invalid", "its path is refused");
      this.#end();
      return sendReply(this.#server, REDIRECT, { location: path.location });
    }
    request.path = path;
    if (!ruleUnderscores(request.fields, rules.path.underscores)) {
      return this.fail("request_invalid", "the name of a field has an underscore");
    }
    forwardRequest(request, this.#service.caller.isSecure);
    this.#service.downstream.context.requestIds.ensure(request.fields);
    // What a local application says of itself proves nothing to anybody.
    const isAppended = listener.front.direction === "inbound" && !rules.sanitizeForwardedClientCert;
    forwardClientCert(request.fields, isAppended ? this.#service.caller.clientCert : "");
    if (!this.#mayGoOn()) return;
    this.#entered = listener.ways.enter();
    if (!this.#entered) return this.fail("limit_reached", listener.ways.limit);
    // Nothing of the body is read before there is somebody who takes it.
    if (!this.#requestEnded) this.#server.pause();
    this.#reach();
  }

  /** By what is true now. False: it may not go on, and has been told. */
  #mayGoOn(): boolean {
    const verdict = this.#service.judge(this.#server.request);
    if ("rule" in verdict) this.#permit = verdict;
    else this.fail(verdict.code, verdict.reason);
    return !this.#over;
  }

  #reach(): void {
    const { listener: { ways } } = this.#service;
    const dial = ways.reach(this, undefined);
    if (!this.#way && !this.#over) this.#dial = dial;
  }

  onDialled(way: Way, lease?: Lease): void {
    this.#dial = undefined;
    this.#way = way;
    this.#lease = lease;
    const { request, endsWithHead } = this.#server;
    const wasUsed = way.isUsed;
    this.#response.wasUsed = wasUsed;
    this.#client = way.request(request, endsWithHead, this.#response);
    if (endsWithHead) return;
    if (request.expectsContinue) {
      this.#server.inform({ status: 100, length: 0, fields: [] });
    }
    this.#server.resume();
  }

  onFailed(code: ErrorCode, reason: string): void {
    this.#dial = undefined;
    this.fail(code, reason);
  }

  // What the caller sends.

  onData(chunk: Uint8Array): void {
    this.#activeTick = this.#service.downstream.context.live.tick;
    this.#bodySent = true;
    if (this.#client?.send(chunk) === false) this.#server.pause();
  }

  onEnd(trailers: Fields | undefined): void {
    this.#requestEnded = true;
    this.#client?.end(trailers);
  }

  /** The caller takes more of the response. */
  onDrain(): void {
    this.#client?.resume();
  }

  /** The caller broke it. */
  onReset(_reason: ResetReason, _detail: string): void {
    this.#end();
    this.#client?.reset("cancelled");
  }

  // What the endpoint answers.

  informed(head: ResponseHead): void {
    // The caller was told to go on by us, or never asked.
    if (head.status !== 100) this.#server.inform(head);
  }

  responded(head: ResponseHead, ends: boolean): void {
    const { request } = this.#server;
    this.#activeTick = this.#service.downstream.context.live.tick;
    this.#responded = true;
    this.#tellHealth(head.status >= 500);
    const isTunnel = request.upgrade !== ""
      ? head.status === 101 || (head.status === 200 && this.#isTunnelling)
      : request.method === "CONNECT" && head.status >= 200 && head.status < 300;
    if (isTunnel) return this.#tunnel(head);
    this.#server.respond(head, ends);
    if (ends) this.#responseEnded();
  }

  /** The codecs make a 101 of what accepts an extended CONNECT. */
  get #isTunnelling(): boolean {
    return false;
  }

  responseData(chunk: Uint8Array): void {
    this.#activeTick = this.#service.downstream.context.live.tick;
    if (!this.#server.send(chunk)) this.#client?.pause();
  }

  responseEnd(trailers: Fields | undefined): void {
    this.#server.end(trailers);
    this.#responseEnded();
  }

  /** The endpoint takes more of the request. */
  clientDrained(): void {
    this.#server.resume();
  }

  /** The endpoint, or the way to it, broke. */
  clientReset(reason: ResetReason, detail: string, wasUsed: boolean): void {
    if (this.#over) return;
    this.#client = undefined;
    if (this.#responded) {
      this.#end();
      this.#server.reset(reason === "protocol" ? "internal" : reason);
      return;
    }
    if (this.#mayGoAgain(reason, wasUsed)) {
      this.#again++;
      this.#release();
      return this.#reach();
    }
    this.#tellHealth(true);
    const code = reason === "protocol" || reason === "overflow"
      ? "response_invalid"
      : "endpoint_reset";
    this.fail(code, detail);
  }

  /** Nothing was answered, and nobody can have acted on it twice. */
  #mayGoAgain(reason: ResetReason, wasUsed: boolean): boolean {
    if (this.#bodySent || this.#again >= MAX_AGAIN) return false;
    if (reason === "refused") return true;
    const { request: { method, upgrade } } = this.#server;
    return reason === "connection" && wasUsed && upgrade === "" && IDEMPOTENT.has(method);
  }

  #tellHealth(isFailure: boolean): void {
    const lease = this.#lease;
    if (!lease) return;
    if (isFailure) countFailure(lease, this.#service.downstream.context);
    else lease.target.pool.succeeded(lease.state);
  }

  /** From here on it is bytes both ways, as on a connection of L4. */
  #tunnel(head: ResponseHead): void {
    const client = this.#client;
    if (!client) return;
    const upstream = client.tunnel();
    const downstream = this.#server.tunnel(head);
    this.#relay = new Relay(downstream, upstream, {
      ticker: this.#service.downstream.context.live,
      onOver: (end) => this.#relayEnded(end),
    });
  }

  #relayEnded(_end: RelayEnd): void {
    this.#end();
  }

  #responseEnded(): void {
    // Whoever answers before it has heard all does not want the rest.
    if (!this.#requestEnded) this.#client?.reset("cancelled");
    this.#end();
  }

  /** Answers in the endpoint's place, or breaks it where something was answered already. */
  fail(code: ErrorCode, reason: string): void {
    if (this.#over) return;
    const { log } = this.#service.downstream.context;
    const { record, peer } = this.#service.downstream;
    const { request } = this.#server;
    this.#end();
    this.#client?.reset("cancelled");
    if (this.#responded) {
      this.#relay?.stop("reset");
      this.#server.reset("internal");
      return;
    }
    log[code === "intention_denied" ? "warn" : "info"]("request failed", {
      listener: record.listener,
      source: peer?.name ?? record.source,
      method: request.method,
      path: request.path,
      code,
      reason,
    });
    const { showDenials } = this.#service.listener.rules();
    const deniedBy = code === "intention_denied" && showDenials ? { deniedBy: reason } : {};
    sendReply(this.#server, replyOf(code), deniedBy);
  }

  /** By what is true now. */
  rejudge(): void {
    if (!this.#over && this.#permit) this.#mayGoOn();
  }

  sweep(): void {
    const { live } = this.#service.downstream.context;
    const { streamIdleTimeoutMs, requestTimeoutMs } = this.#service.listener.rules();
    if (this.#relay) this.#activeTick = this.#relay.activeTick;
    const idleMs = (live.tick - this.#activeTick) * live.tickMs;
    if (streamIdleTimeoutMs > 0 && idleMs > streamIdleTimeoutMs) {
      return this.fail("idle_timed_out", `no byte for ${streamIdleTimeoutMs} ms`);
    }
    if (requestTimeoutMs === 0 || this.#relay) return;
    const { clock } = this.#service.downstream.context;
    if (clock.monotonic() - this.#startedMs > requestTimeoutMs) {
      this.fail("response_timed_out", `not answered within ${requestTimeoutMs} ms`);
    }
  }

  /** The caller is gone. */
  abandon(): void {
    if (this.#over) return;
    this.#end();
    this.#client?.reset("cancelled");
    this.#relay?.stop("reset");
  }

  #release(): void {
    if (this.#lease) giveBack(this.#lease);
    this.#lease = undefined;
    this.#way = undefined;
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#dial?.cancel();
    this.#release();
    if (this.#entered) this.#service.listener.ways.leave();
    this.#service.over(this);
  }
}

/** What the endpoint tells, by other names than what the caller does. */
class Response implements ResponseEvents {
  readonly #exchange: HttpExchange;
  /** The way had carried requests before. */
  wasUsed = false;

  constructor(exchange: HttpExchange) {
    this.#exchange = exchange;
  }

  onInformational(head: ResponseHead): void {
    this.#exchange.informed(head);
  }

  onResponse(head: ResponseHead, ends: boolean): void {
    this.#exchange.responded(head, ends);
  }

  onData(chunk: Uint8Array): void {
    this.#exchange.responseData(chunk);
  }

  onEnd(trailers: Fields | undefined): void {
    this.#exchange.responseEnd(trailers);
  }

  onDrain(): void {
    this.#exchange.clientDrained();
  }

  onReset(reason: ResetReason, detail: string): void {
    this.#exchange.clientReset(reason, detail, this.wasUsed);
  }
}
