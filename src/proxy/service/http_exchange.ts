/** One request of a caller and its response. Both sides report here; it ends here once. @module */

import {
  type BagMember,
  type Deadline,
  type ErrorCode,
  NO_PLACE,
  type Origin,
  originOf,
  type Reply,
  replyOf,
} from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import {
  ExchangeRecord,
  type Fields,
  FLAG,
  type HeldShare,
  isGrpc,
  type MessageEvents,
  REDIRECT,
  type ReplyOptions,
  type RequestHead,
  type ResetReason,
  type ResponseHead,
  sendReply,
  type ServerExchange,
  UNANSWERED,
} from "../../http/mod.ts";
import { Relay, type RelayEnd } from "../../net/mod.ts";
import { type Generation, TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import { faultsOfTokens, type VerifiedClaims } from "../../policy/mod.ts";
import type { RequestJudge } from "../caller/authorize.ts";
import type { Session } from "../caller/session.ts";
import type { Context } from "../core/context.ts";
import type { SweepTime } from "../observe/connection_record.ts";
import { pluginEvents } from "../observe/tracer.ts";
import type { RequestView } from "../observe/view.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";
import type { RequestPool, RequestRoute } from "../upstream/request_pools.ts";
import type { Lease } from "../upstream/target_group.ts";
import {
  isSuccess,
  opensTunnel,
  type OutgoingRequest,
  type RequestHandle,
  UpstreamRequest,
} from "../upstream/upstream_request.ts";
import { type DownstreamInfo, ExchangeValue } from "./exchange_value.ts";
import { dropDenial, ownDenial, takeDenial } from "./denials.ts";
import { logFailedRequest, noteInvalid, requestView } from "./failed_request.ts";
import {
  AFTER_TOKENS,
  type HttpListener,
  judgeRequest,
  REQUEST_STAGES,
  type StagedRequest,
  type StageRefusal,
} from "./stages.ts";
import { PluginLayers, type PluginResponseSink } from "./plugin_layers.ts";
import { TokenCheck } from "./token_check.ts";

const NO_FIELDS: Fields = [];

export interface ExchangeHost {
  readonly session: Session;
  readonly listener: HttpListener;
  readonly caller: DownstreamInfo;
  readonly judge: RequestJudge;
  over(exchange: HttpExchange): void;
}

export class HttpExchange implements MessageEvents, PluginResponseSink, StagedRequest, BagMember {
  place = NO_PLACE;
  readonly context: Context;
  readonly listener: HttpListener;
  readonly record: ExchangeRecord;
  route: RequestRoute | undefined;
  readonly #host: ExchangeHost;
  readonly #server: ServerExchange;
  #isAdmitted = false;
  #tokens: TokenCheck | undefined;
  #value: ExchangeValue | undefined;
  #upstream: RequestHandle | undefined;
  /** The same object, if there are plugins. */
  #layers: PluginLayers | undefined;
  #relay: Relay | undefined;
  #activeTick: number;
  #requestEnded: boolean;
  #awaitsContinue = false;
  #responseDeadline: Deadline | undefined;
  #responded = false;
  #over = false;

  constructor(host: ExchangeHost, server: ServerExchange) {
    const { listener, session: { context } } = host;
    const { live, clock } = context;
    this.#host = host;
    this.#server = server;
    this.context = context;
    this.listener = listener;
    this.record = new ExchangeRecord(host.caller, server.request, {
      wallMs: clock.now(),
      monotonicMs: clock.monotonic(),
    });
    this.#requestEnded = server.endsWithHead;
    if (server.endsWithHead) this.record.requestEndAt = this.record.startedAt;
    this.#activeTick = live.tick;
    server.events = this;
    listener.observers.began(this.record);
  }

  // As the stages see it.

  get head(): RequestHead {
    return this.#server.request;
  }

  get caller(): DownstreamInfo {
    return this.#host.caller;
  }

  get callerKey(): string {
    return this.held.account.caller;
  }

  get judge(): RequestJudge {
    return this.#host.judge;
  }

  get claims(): VerifiedClaims | undefined {
    return this.#value?.get(VERIFIED_CLAIMS);
  }

  /** Bytes held for its slower side. */
  get held(): HeldShare {
    return this.#server.held;
  }

  start(): void {
    this.#run(0);
  }

  #run(from: number): void {
    for (let at = from; at < REQUEST_STAGES.length; at++) {
      const result = REQUEST_STAGES[at]?.run(this);
      if (result === "handed_over") return;
      if (result) return this.#refuse(result);
      if (at !== AFTER_TOKENS) continue;
      this.#isAdmitted = true;
      this.listener.observers.admitted(this.record);
    }
  }

  #refuse({ code, reason, location, lacks }: StageRefusal): void {
    if (location !== undefined) return this.#answer(REDIRECT, { location });
    const faults = lacks && faultsOfTokens(lacks, {
      verified: this.claims,
      faults: this.#value?.get(TOKEN_FAULTS),
    });
    // The reason tells an expired token from a missing one.
    this.fail(code, faults ? faults.join("; ") : reason);
  }

  verifyTokens(generation: Generation): void {
    const { head } = this;
    // The body waits until it is known where it goes.
    if (!this.#requestEnded) this.#server.pause();
    const { deadlines } = this.context;
    this.#tokens = new TokenCheck(generation, this.#newValue(), {
      deadlines,
      onKnown: (known) => {
        if (!known) return this.fail("plugin_failed", "its tokens could not be verified");
        // Without the verified tokens, and with the claims that the application gets.
        ({ path: head.path, fields: head.fields, ownNames: head.ownNames } = known);
        this.#run(AFTER_TOKENS);
      },
    });
    this.#tokens.start(head);
  }

  runPlugins(generation: Generation, route: RequestRoute): void {
    const { context } = this;
    const exchange = this.#newValue();
    const { trace, startedAt } = this.record;
    const decided = trace && pluginEvents(trace, startedAt, context.clock);
    const options = { generation, route, context, exchange, decided };
    const layers = new PluginLayers(this, this.#outgoing(), options);
    this.#upstream = this.#layers = layers;
    layers.start();
    if (this.#requestEnded) this.#awaitResponse();
  }

  sendTo(pool: RequestPool, route: RequestRoute): void {
    const { context } = this;
    const hash = route.hashFor?.(DEFAULT_ROUTE);
    const upstream = new UpstreamRequest(this, this.#outgoing(), { pool, hash, context });
    this.#upstream = upstream;
    upstream.start();
    if (this.#requestEnded) this.#awaitResponse();
  }

  #newValue(): ExchangeValue {
    return this.#value ??= new ExchangeValue(this.record, this.caller.value, this.callerKey);
  }

  #outgoing(): OutgoingRequest {
    const { request, endsWithHead } = this.#server;
    // The body waits for an endpoint.
    if (!this.#requestEnded) this.#server.pause();
    // Answered here with 100 once an endpoint is reached; the endpoint is not asked.
    this.#awaitsContinue = request.expectsContinue;
    request.expectsContinue = false;
    return { request, endsWithHead, remote: this.caller.remote, held: this.held };
  }

  /** The request is complete: as with Envoy the response timeout begins. */
  #awaitResponse(): void {
    const { requestTimeoutMs } = this.listener.rules();
    if (requestTimeoutMs === 0 || this.#over) return;
    this.#responseDeadline = this.context.deadlines.after(requestTimeoutMs, () => {
      this.#upstream?.timedOut();
      this.fail("response_timed_out", `not answered within ${requestTimeoutMs} ms`);
    });
  }

  // Events of the caller's side.

  onData(chunk: Uint8Array): void {
    this.#activeTick = this.context.live.tick;
    this.record.receivedBytes += chunk.length;
    if (this.#upstream?.send(chunk) === false) this.#server.pause();
  }

  onEnd(trailers: Fields | undefined): void {
    this.#requestEnded = true;
    this.record.requestEndAt = this.context.clock.monotonic();
    this.#upstream?.end(trailers);
    this.#awaitResponse();
  }

  onDrain(): void {
    this.#upstream?.resume();
  }

  onReset(reason: ResetReason, detail: string): void {
    if (this.#over) return;
    const { record } = this;
    if (reason === "protocol") {
      const { request: { version } } = this.#server;
      // The status that the codec answers with if there is no response yet.
      const status = this.#responded || version === "HTTP/2" ? record.status : 400;
      noteInvalid(record, { version, status, detail });
      this.#log("request_invalid", detail);
    } else {
      record.flags |= FLAG.DC;
      record.code = "downstream_reset";
    }
    this.#end("downstream");
  }

  // Events of the upstream side.

  reached(connection: PooledConnection, lease: Lease | undefined): void {
    const { record } = this;
    record.attempts++;
    record.upstreamHost = connection.reached.host;
    record.upstream = connection.reached.endpoint;
    if (lease) record.upstreamCluster = lease.target.cluster;
    record.upstreamStartAt = this.context.clock.monotonic();
    this.listener.observers.reached(record, lease);
  }

  bodyWanted(): void {
    if (this.#awaitsContinue) this.#server.inform({ status: 100, length: 0, fields: [] });
    this.#awaitsContinue = false;
    this.#server.resume();
  }

  bodyHeld(): void {
    if (!this.#requestEnded) this.#server.pause();
  }

  informed(head: ResponseHead): void {
    // The caller got its 100 from us, or did not ask for one.
    if (head.status === 100) return;
    dropDenial(head.fields, this.listener);
    this.#server.inform(head);
  }

  responded(head: ResponseHead, ends: boolean): void {
    const { request } = this.#server;
    const { record, context: { clock, live } } = this;
    this.#activeTick = live.tick;
    this.#responded = true;
    record.upstreamFirstByteAt = clock.monotonic();
    record.response = head;
    record.status = head.status;
    record.details ||= "via_upstream";
    takeDenial(head, this.listener, { record, request, ends });
    if (record.denial) this.context.refusals.request(this.#host.session.record, record);
    this.route?.changeResponse?.(head.fields, record);
    if (request.upgrade !== "" && request.version === "HTTP/2" && isSuccess(head.status)) {
      this.#responded = false;
      // With HTTP/2 a 2xx would accept the upgrade (RFC 8441 4), which the endpoint did not.
      return this.fail("response_invalid", "the upgrade was answered by an ordinary response");
    }
    this.listener.observers.responded(record);
    if (opensTunnel(request, head.status)) return this.#tunnel(head);
    this.#server.respond(head, ends);
    if (ends) this.#end(undefined);
  }

  responseData(chunk: Uint8Array): void {
    this.#activeTick = this.context.live.tick;
    this.record.sentBytes += chunk.length;
    if (!this.#server.send(chunk)) this.#upstream?.pause();
  }

  responseEnd(trailers: Fields | undefined): void {
    if (trailers) dropDenial(trailers, this.listener);
    this.record.responseTrailers = trailers;
    this.#server.end(trailers);
    this.#end(undefined);
  }

  upstreamFailed(code: ErrorCode, reason: string, tried: string): void {
    // Only a failed connection, not a missing endpoint or a limit.
    if (replyOf(code).flag === "UF") this.record.upstreamFailure = reason;
    if (tried !== "") this.record.upstreamHost = tried;
    this.fail(code, reason);
  }

  goesTo(cluster: string, route: string, chosenBy: string): void {
    this.record.upstreamCluster = cluster;
    this.record.chosenBy = chosenBy;
    if (route !== DEFAULT_ROUTE) this.record.route = route;
  }

  answersItself(): void {
    this.record.details = "direct_response";
  }

  /** From here on bytes are relayed in both directions, as on a connection that carries bytes. */
  #tunnel(head: ResponseHead): void {
    const upstream = this.#upstream?.tunnel();
    if (!upstream) return;
    this.#responseDeadline?.cancel();
    const downstream = this.#server.tunnel(head);
    this.#relay = new Relay(downstream, upstream, {
      ticker: this.context.live,
      held: this.held,
      onOver: (end) => this.#relayEnded(end),
    });
  }

  #relayEnded(end: RelayEnd): void {
    this.#takeCounts();
    if (end.kind === "ended") return this.#end(undefined);
    this.record.code = end.by === "downstream" ? "downstream_reset" : "endpoint_reset";
    this.#end(end.by);
  }

  #takeCounts(): void {
    const { record } = this;
    record.receivedBytes += this.#relay?.receivedBytes ?? 0;
    record.sentBytes += this.#relay?.sentBytes ?? 0;
  }

  /** Answers in place of an endpoint, or breaks the exchange once a response has begun. */
  fail(code: ErrorCode, reason: string, fields: Fields = NO_FIELDS): void {
    if (this.#over) return;
    const { listener, record } = this;
    const reply = code === "idle_timed_out" && this.#requestEnded
      ? UNANSWERED
      : replyOf(code, reason);
    record.code = code;
    if (reply.flag !== "") record.flags |= FLAG[reply.flag];
    this.#log(code, reason);
    if (!this.#responded) {
      const { peer } = this.#host.session;
      return this.#answer(reply, { fields, denial: ownDenial(code, { listener, record, peer }) });
    }
    this.#takeCounts();
    this.#relay?.stop("reset");
    this.#end(originOf(code));
    if (!this.#relay) this.#server.reset("internal");
  }

  /** Ends it to free its memory: bytes that are queued in either direction are dropped. */
  stop(reason: string): void {
    this.fail("overloaded", reason);
    this.#server.reset("internal");
  }

  #answer(reply: Reply, options: ReplyOptions): void {
    const { record } = this;
    record.status = reply.status;
    record.details = reply.details;
    const { method, fields } = this.#server.request;
    if (method !== "HEAD" && !isGrpc(fields)) record.sentBytes = reply.text.length;
    this.#responded = true;
    const change = this.route?.changeResponse;
    this.listener.observers.responded(record);
    const own = change
      ? { ...options, change: (fields: Fields) => change(fields, record) }
      : options;
    record.response = sendReply(this.#server, reply, own);
    this.#end(record.code === undefined ? undefined : originOf(record.code));
  }

  #log(code: ErrorCode, reason: string): void {
    const { head: { method, path }, record: { rule, upstreamHost } } = this;
    logFailedRequest(this.#host.session, { code, reason }, { method, path, rule, upstreamHost });
  }

  view(now: SweepTime): RequestView {
    const { request } = this.#server;
    const facts = { request, relay: this.#relay, activeTick: this.#activeTick };
    return requestView(this.record, facts, now);
  }

  /** True: it is not allowed any more, and ends. */
  rejudge(): boolean {
    const refusal = !this.#over && this.#isAdmitted ? judgeRequest(this) : undefined;
    if (refusal) this.#refuse(refusal);
    return refusal !== undefined;
  }

  sweep(): void {
    const { listener, context: { live, clock } } = this;
    const { streamIdleTimeoutMs, requestTimeoutMs } = listener.rules();
    const idleTimeoutMs = this.#layers?.idleTimeoutMs ?? streamIdleTimeoutMs;
    const activeTick = this.#relay?.activeTick ?? this.#activeTick;
    // The tick of the last byte counts as whole: no timeout is cut short.
    const idleMs = (live.tick - activeTick - 1) * live.tickMs;
    if (idleTimeoutMs > 0 && idleMs >= idleTimeoutMs) {
      return this.fail("idle_timed_out", `no byte for ${idleTimeoutMs} ms`);
    }
    const stuck = this.#layers?.stuckFor(live.tickMs);
    if (stuck !== undefined) return this.fail("plugin_failed", stuck);
    // Callers without an identity have no more time for a request than the response has.
    if (!listener.exposed || this.#requestEnded) return;
    if (clock.monotonic() - this.record.startedAt > requestTimeoutMs) {
      this.fail("request_timed_out", `the request was not complete within ${requestTimeoutMs} ms`);
    }
  }

  abandon(): void {
    this.#takeCounts();
    this.#relay?.stop("reset");
    this.onReset("connection", "");
  }

  /** `by`: the side that broke it; `undefined`: it was completed. */
  #end(by: Origin | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#responseDeadline?.cancel();
    this.#tokens?.leave();
    this.#upstream?.leave(by !== undefined);
    const { record } = this;
    record.endAt = this.context.clock.monotonic();
    record.endedBy = by;
    this.#layers?.endExchange();
    // The rest of a request that was answered is read and dropped.
    if (!this.#requestEnded && !this.#relay) this.#server.resume();
    this.listener.observers.ended(record);
    this.#host.over(this);
  }
}
