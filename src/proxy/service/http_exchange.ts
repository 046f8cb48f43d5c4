/**
 * One request of a caller and its response: judged, given a way to an endpoint, carried both ways, counted.
 * It is the place that both sides of an exchange tell what happens, and where it ends, exactly once.
 *
 * @module
 */

import {
  type BagMember,
  type Deadline,
  type ErrorCode,
  NO_PLACE,
  type Origin,
  originOf,
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
  type Reply,
  replyOf,
  type ReplyOptions,
  type ResetReason,
  type ResponseHead,
  sendReply,
  type ServerExchange,
  UNANSWERED,
} from "../../http/mod.ts";
import { type Generation, TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import { faultsOfTokens, type TokenNeed, type VerifiedClaims } from "../../policy/mod.ts";
import { Relay, type RelayEnd } from "../../net/mod.ts";
import type { RequestJudge, RequestPermit } from "../caller/authorize.ts";
import type { SweepTime } from "../observe/connection_record.ts";
import type { Downstream } from "../caller/downstream.ts";
import type { Context } from "../core/context.ts";
import type { Lease } from "../upstream/target_group.ts";
import type { RequestView } from "../observe/view.ts";
import type { DownstreamInfo } from "./downstream_info.ts";
import { ExchangeValue } from "./exchange_value.ts";
import type { HttpListener } from "./http_listener.ts";
import type { HttpClusterStats } from "../observe/http_stats.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";
import { noteInvalid } from "./invalid_request.ts";
import { PluginLayers, type PluginResponseSink } from "./plugin_layers.ts";
import { NO_TUNNELS, takeForm } from "./request_form.ts";
import { requestView } from "./request_view.ts";
import { logFailedRequest } from "./log_failed_request.ts";
import { TokenCheck } from "./token_check.ts";
import {
  isSuccess,
  opensTunnel,
  type OutgoingRequest,
  type RequestHandle,
  UpstreamRequest,
} from "../upstream/upstream_request.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";

const NO_FIELDS: Fields = [];
/** The connection that an exchange came on. */
export interface ExchangeHost {
  readonly downstream: Downstream;
  readonly listener: HttpListener;
  readonly caller: DownstreamInfo;
  /** Of now. */
  readonly judge: RequestJudge;
  over(exchange: HttpExchange): void;
}

export class HttpExchange implements MessageEvents, PluginResponseSink, BagMember {
  place = NO_PLACE;
  readonly #owner: ExchangeHost;
  readonly #server: ServerExchange;
  readonly #context: Context;
  /** For the access log and the counts. */
  readonly #story: ExchangeRecord;
  #permit: RequestPermit | undefined;
  /** What verifies its tokens, what these said, and the exchange that both know. */
  #tokens: TokenCheck | undefined;
  #claims: VerifiedClaims | undefined;
  #value: ExchangeValue | undefined;
  #route: RequestRoute | undefined;
  #upstream: RequestHandle | undefined;
  /** The same, where there are plugins. */
  #layers: PluginLayers | undefined;
  #relay: Relay | undefined;
  /** Of the cluster that it was sent to last. */
  #behind: HttpClusterStats | undefined;
  #activeTick: number;
  #requestEnded: boolean;
  #awaitsContinue = false;
  #answerDeadline: Deadline | undefined;
  #responded = false;
  #over = false;

  constructor(owner: ExchangeHost, server: ServerExchange) {
    const { context } = owner.downstream;
    const { live, clock } = context;
    this.#owner = owner;
    this.#server = server;
    this.#context = context;
    this.#story = new ExchangeRecord(owner.caller, server.request, {
      wallMs: clock.now(),
      monotonicMs: clock.monotonic(),
    });
    this.#requestEnded = server.endsWithHead;
    if (server.endsWithHead) this.#story.requestEndAt = this.#story.startedAt;
    this.#activeTick = live.tick;
    server.events = this;
    owner.listener.stats.started();
  }

  /** Bytes that wait for its slower side. */
  get held(): HeldShare {
    return this.#server.held;
  }

  start(): void {
    const { listener } = this.#owner;
    if (!this.#takesForm()) return;
    const { tokens } = listener;
    const generation = tokens && this.#context.facts.plugins?.of(tokens);
    if (generation) this.#verifyTokens(generation);
    else this.#goOn();
  }

  #verifyTokens(generation: Generation): void {
    const { request } = this.#server;
    // Nothing of the body is read before it is known where it goes.
    if (!this.#requestEnded) this.#server.pause();
    const exchange = this.#value = this.#newValue();
    this.#tokens = new TokenCheck({
      ...{ generation, exchange, deadlines: this.#context.deadlines },
      onKnown: (known) => {
        if (!known) return this.fail("plugin_failed", "its tokens could not be verified");
        // Without the tokens that were verified, and with what the application is told of them.
        ({ path: request.path, fields: request.fields, ownNames: request.ownNames } = known);
        this.#claims = exchange.get(VERIFIED_CLAIMS);
        this.#goOn();
      },
    });
    this.#tokens.start(request);
  }

  #goOn(): void {
    if (!this.#mayGoOn()) return;
    const { listener } = this.#owner;
    const { request } = this.#server;
    if (request.method === "CONNECT") return this.fail("route_not_found", NO_TUNNELS);
    const route = this.#route = listener.routeOf(request);
    if (!route) return this.fail("route_not_found", "no service is here for its host");
    route.changeRequest?.(request.fields, this.#story);
    if (route.ownNames) request.ownNames = [...request.ownNames ?? [], ...route.ownNames];
    const generation = this.#context.facts.plugins?.of(route.plugins ?? listener.front.name);
    if (generation) return this.#goThrough(generation, route);
    const ways = route.waysOf(DEFAULT_ROUTE);
    if (!ways) return this.fail("route_not_found", "its route leads nowhere");
    if (!ways.enter(this.held.account.caller)) return this.fail("limit_reached", ways.whyFull());
    this.#story.upstreamCluster = ways.cluster;
    const hash = route.hashOf?.(DEFAULT_ROUTE);
    const upstream = new UpstreamRequest(this, this.#asked(), {
      ways,
      hash,
      context: this.#context,
    });
    this.#upstream = upstream;
    upstream.start();
    if (this.#requestEnded) this.#awaitAnswer();
  }

  #goThrough(generation: Generation, route: RequestRoute): void {
    const exchange = this.#value ??= this.#newValue();
    const context = this.#context;
    const layers = new PluginLayers(this, this.#asked(), { generation, route, context, exchange });
    this.#upstream = this.#layers = layers;
    layers.start();
    if (this.#requestEnded) this.#awaitAnswer();
  }

  #newValue(): ExchangeValue {
    return new ExchangeValue(this.#story, this.#owner.caller.value, this.held.account.caller);
  }

  #asked(): OutgoingRequest {
    const { request, endsWithHead } = this.#server;
    // Nothing of the body is read before there is somebody who takes it.
    if (!this.#requestEnded) this.#server.pause();
    // The caller is told to go on from here, and nobody behind us is asked.
    this.#awaitsContinue = request.expectsContinue;
    request.expectsContinue = false;
    return { request, endsWithHead, remote: this.#owner.caller.remote, held: this.held };
  }

  /** The caller has said all: as with Envoy the time for an answer begins. */
  #awaitAnswer(): void {
    const { requestTimeoutMs } = this.#owner.listener.rules();
    if (requestTimeoutMs === 0 || this.#over) return;
    this.#answerDeadline = this.#context.deadlines.after(requestTimeoutMs, () => {
      this.#upstream?.tookTooLong();
      this.fail("response_timed_out", `not answered within ${requestTimeoutMs} ms`);
    });
  }

  /** False: there is no form in which it could be judged, and it has been told. */
  #takesForm(): boolean {
    const { listener, caller } = this.#owner;
    const { request } = this.#server;
    const { path } = request;
    const fault = takeForm(request, {
      rules: listener.rules(),
      caller,
      ids: this.#context.requestIds,
      isInbound: listener.front.direction === "inbound",
    });
    if (request.path !== path) this.#story.originalPath = path;
    if (!fault) return true;
    if ("reason" in fault) this.fail("request_invalid", fault.reason);
    else this.#answer(REDIRECT, fault);
    return false;
  }

  /** By what is true now. False: it may not go on, and has been told. */
  #mayGoOn(): boolean {
    const verdict = this.#owner.judge(this.#server.request, this.#claims);
    if ("code" in verdict) {
      const { code, reason, isUnjudged, lacks } = verdict;
      if (isUnjudged) this.#owner.listener.stats.unjudged(reason);
      this.#story.rule = reason;
      this.fail(code, lacks ? this.#whyWithoutToken(lacks) : reason);
    } else this.#story.rule = (this.#permit = verdict).rule;
    return !this.#over;
  }

  /** For the log, which would else not tell an expired token from none. */
  #whyWithoutToken(needs: readonly TokenNeed[]): string {
    const faults = this.#value?.get(TOKEN_FAULTS);
    return faultsOfTokens(needs, { verified: this.#claims, faults }).join("; ");
  }

  // What the caller sends.

  onData(chunk: Uint8Array): void {
    this.#activeTick = this.#context.live.tick;
    this.#story.receivedBytes += chunk.length;
    if (this.#upstream?.send(chunk) === false) this.#server.pause();
  }

  onEnd(trailers: Fields | undefined): void {
    this.#requestEnded = true;
    this.#story.requestEndAt = this.#context.clock.monotonic();
    this.#upstream?.end(trailers);
    this.#awaitAnswer();
  }

  /** The caller takes more of the response. */
  onDrain(): void {
    this.#upstream?.resume();
  }

  /** The caller broke it. */
  onReset(reason: ResetReason, detail: string): void {
    if (this.#over) return;
    const story = this.#story;
    if (reason === "protocol") {
      const { request: { version } } = this.#server;
      // What the codec answers where nothing was answered so far.
      const status = this.#responded || version === "HTTP/2" ? story.status : 400;
      noteInvalid(story, { version, status, detail });
      this.#tell("request_invalid", detail);
    } else {
      story.flags |= FLAG.DC;
      story.code = "downstream_reset";
    }
    this.#end("downstream");
  }

  // What comes of it upstream.

  reached(way: PooledConnection, lease: Lease | undefined): void {
    const story = this.#story;
    story.attempts++;
    story.upstreamHost = way.host;
    story.upstream = way.reached.connection;
    if (lease) story.upstreamCluster = lease.target.cluster;
    this.#behind?.left();
    this.#behind = this.#owner.listener.stats.of(story.upstreamCluster);
    this.#behind.reached();
    story.upstreamStartAt = this.#context.clock.monotonic();
  }

  takesBody(): void {
    if (this.#awaitsContinue) this.#server.inform({ status: 100, length: 0, fields: [] });
    this.#awaitsContinue = false;
    this.#server.resume();
  }

  holdsBody(): void {
    if (!this.#requestEnded) this.#server.pause();
  }

  informed(head: ResponseHead): void {
    // The caller was told to go on by us, or never asked.
    if (head.status !== 100) this.#server.inform(head);
  }

  responded(head: ResponseHead, ends: boolean): void {
    const { request } = this.#server;
    const { clock, live } = this.#context;
    const story = this.#story;
    this.#activeTick = live.tick;
    this.#responded = true;
    story.upstreamFirstByteAt = clock.monotonic();
    story.response = head;
    story.status = head.status;
    story.details ||= "via_upstream";
    this.#route?.changeResponse?.(head.fields, story);
    if (request.upgrade !== "" && request.version === "HTTP/2" && isSuccess(head.status)) {
      this.#responded = false;
      // By HTTP/2 any 2xx would mean yes (RFC 8441 4), which is not what was said.
      return this.fail("response_invalid", "the upgrade was answered by a response of its own");
    }
    if (opensTunnel(request, head.status)) return this.#tunnel(head);
    this.#server.respond(head, ends);
    if (ends) this.#end(undefined);
  }

  responseData(chunk: Uint8Array): void {
    this.#activeTick = this.#context.live.tick;
    this.#story.sentBytes += chunk.length;
    if (!this.#server.send(chunk)) this.#upstream?.pause();
  }

  responseEnd(trailers: Fields | undefined): void {
    this.#story.responseTrailers = trailers;
    this.#server.end(trailers);
    this.#end(undefined);
  }

  upstreamFailed(code: ErrorCode, reason: string, tried: string): void {
    // Who has nobody to go to, or no place, did not fail on the way.
    if (replyOf(code).flag === "UF") this.#story.upstreamFailure = reason;
    if (tried !== "") this.#story.upstreamHost = tried;
    this.fail(code, reason);
  }

  goesTo(cluster: string): void {
    this.#story.upstreamCluster = cluster;
  }

  answersItself(): void {
    this.#story.details = "direct_response";
  }

  answeredFor(code: ErrorCode, reason: string, fields: Fields): void {
    this.fail(code, reason, fields);
  }

  /** From here on it is bytes both ways, as on a connection of L4. */
  #tunnel(head: ResponseHead): void {
    const upstream = this.#upstream?.tunnel();
    if (!upstream) return;
    this.#answerDeadline?.cancel();
    const downstream = this.#server.tunnel(head);
    this.#relay = new Relay(downstream, upstream, {
      ticker: this.#context.live,
      held: this.held,
      onOver: (end) => this.#relayEnded(end),
    });
  }

  #relayEnded(end: RelayEnd): void {
    this.#takeCounts();
    if (end.kind === "ended") return this.#end(undefined);
    this.#story.code = end.by === "downstream" ? "downstream_reset" : "endpoint_reset";
    this.#end(end.by);
  }

  #takeCounts(): void {
    const story = this.#story;
    story.receivedBytes += this.#relay?.receivedBytes ?? 0;
    story.sentBytes += this.#relay?.sentBytes ?? 0;
  }

  /** Answers in the endpoint's place, or breaks it where something was answered already. */
  fail(code: ErrorCode, reason: string, fields: Fields = NO_FIELDS): void {
    if (this.#over) return;
    const { listener } = this.#owner;
    const story = this.#story;
    const reply = code === "idle_timed_out" && this.#requestEnded
      ? UNANSWERED
      : replyOf(code, reason);
    story.code = code;
    if (reply.flag !== "") story.flags |= FLAG[reply.flag];
    this.#tell(code, reason);
    if (!this.#responded) {
      const isShown = code === "intention_denied" && listener.rules().showDenials;
      return this.#answer(reply, isShown ? { fields, deniedBy: story.rule } : { fields });
    }
    this.#takeCounts();
    this.#relay?.stop("reset");
    this.#end(originOf(code));
    if (!this.#relay) this.#server.reset("internal");
  }

  /** Gives back the memory that it takes: what it still has to send or to be sent is dropped. */
  stop(reason: string): void {
    this.fail("overloaded", reason);
    this.#server.reset("internal");
  }

  #answer(reply: Reply, options: ReplyOptions): void {
    const story = this.#story;
    story.status = reply.status;
    story.details = reply.details;
    const { method, fields } = this.#server.request;
    if (method !== "HEAD" && !isGrpc(fields)) story.sentBytes = reply.text.length;
    this.#responded = true;
    const change = this.#route?.changeResponse;
    story.response = sendReply(
      this.#server,
      reply,
      change ? { ...options, change: (fields) => change(fields, story) } : options,
    );
    this.#end(story.code === undefined ? undefined : originOf(story.code));
  }

  /** What an operator has to know now; all else is in the access log and the counts. */
  #tell(code: ErrorCode, reason: string): void {
    const { method, path } = this.#server.request;
    const { rule, upstreamHost } = this.#story;
    logFailedRequest(this.#owner.downstream, { code, reason }, {
      method,
      path,
      rule,
      upstreamHost,
    });
  }

  /** By what is true now, of a request that is under way. */
  view(now: SweepTime): RequestView {
    const { request } = this.#server;
    const activeTick = this.#activeTick;
    return requestView({ request, record: this.#story, relay: this.#relay, activeTick }, now);
  }

  rejudge(): void {
    if (!this.#over && this.#permit) this.#mayGoOn();
  }

  sweep(): void {
    const { live, clock } = this.#context;
    const { listener } = this.#owner;
    const { streamIdleTimeoutMs, requestTimeoutMs } = listener.rules();
    const idleTimeoutMs = this.#layers?.idleTimeoutMs ?? streamIdleTimeoutMs;
    const activeTick = this.#relay?.activeTick ?? this.#activeTick;
    // Within a tick nobody knows when: none is cut short.
    const idleMs = (live.tick - activeTick - 1) * live.tickMs;
    if (idleTimeoutMs > 0 && idleMs >= idleTimeoutMs) {
      return this.fail("idle_timed_out", `no byte for ${idleTimeoutMs} ms`);
    }
    const stuck = this.#layers?.stuckFor(live.tickMs);
    if (stuck !== undefined) return this.fail("plugin_failed", stuck);
    // Who need not say who it is has no more time to ask than to be answered.
    if (!listener.exposed || this.#requestEnded) return;
    if (clock.monotonic() - this.#story.startedAt > requestTimeoutMs) {
      this.fail("request_timed_out", `not asked within ${requestTimeoutMs} ms`);
    }
  }

  /** The caller is gone. */
  abandon(): void {
    this.#takeCounts();
    this.#relay?.stop("reset");
    this.onReset("connection", "");
  }

  /** `by`: who broke it; undefined: it was completed. */
  #end(by: Origin | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#answerDeadline?.cancel();
    this.#tokens?.leave();
    this.#upstream?.leave(by !== undefined);
    const { listener } = this.#owner;
    const story = this.#story;
    story.endAt = this.#context.clock.monotonic();
    story.endedBy = by;
    this.#layers?.tellEnd();
    this.#behind?.left();
    // The rest of a request that is answered is of no use to anybody, and must not be kept.
    if (!this.#requestEnded && !this.#relay) this.#server.resume();
    listener.stats.finished(story, listener.rules().protocol === "grpc");
    this.#context.facts.accessLog?.exchange(story);
    this.#owner.over(this);
  }
}
