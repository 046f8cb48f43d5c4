/**
 * What plugins make of one exchange: it stands between the caller's side and the requests upstream, of
 * which there may be none, one, or one after the other. Bodies that no plugin opens pass through as they
 * are.
 *
 * @module
 */

import { type Deadline, type ErrorCode } from "../../base/mod.ts";
import type { Fields, ResponseHead } from "../../http/mod.ts";
import type { Stream } from "../../net/mod.ts";
import {
  failed,
  type ForwardedRequest,
  type Generation,
  type Layer,
  type LayerContext,
  LayerStack,
  MadeBody,
  OpenedBody,
  PassingBody,
  type PassingSource,
  PluginRequest,
  PluginResponse,
  type Pump,
  pumpOf,
  type ResponseFailure,
  type ResponseListener,
  type ResponseOutcome,
  type RoutePlan,
} from "../../plugin/mod.ts";
import type { Context } from "../core/context.ts";
import type { Lease } from "../upstream/target_group.ts";
import { ResponseDeadlines } from "./response_deadlines.ts";
import type { ExchangeValue } from "./exchange_value.ts";
import { RequestBody } from "./request_body.ts";
import type { RequestPool, RequestRoute } from "../upstream/request_pools.ts";
import {
  opensTunnel,
  type OutgoingRequest,
  type RequestHandle,
  type ResponseSink,
  UpstreamRequest,
} from "../upstream/upstream_request.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";

/** Who asks, and has more to be told than by an endpoint alone. */
export interface PluginResponseSink extends ResponseSink {
  /** What the way upstream is called. */
  goesTo(cluster: string): void;
  /** The response that is told next is none of an endpoint's. */
  answersItself(): void;
  /** Nobody upstream answers: a plugin refused, or nobody could. `fields` go with what is said. */
  answeredFor(code: ErrorCode, reason: string, fields: Fields): void;
}

/** How long a plugin may hold an exchange, waiting for something of its own. */
const HOOK_LIMIT_MS = 10_000;

const OVERDUE = "its plugins were closed: others have taken their place long ago";

export class PluginLayers
  implements RequestHandle, ResponseSink, LayerContext, PassingSource, ResponseListener {
  readonly tooLong = "response_invalid";
  readonly exchange: ExchangeValue;
  idleTimeoutMs: number | undefined;
  readonly #asker: PluginResponseSink;
  readonly #asked: OutgoingRequest;
  readonly #generation: Generation;
  readonly #route: RequestRoute;
  /** Chosen once, however often it is tried. */
  #ways: RequestPool | undefined;
  readonly #context: Context;
  readonly #onion: LayerStack;
  /** Of the request; absent: it has none. */
  readonly #body: RequestBody | undefined;
  readonly #passing: PassingBody | null;
  /** Made where a plugin limits the time for an answer. */
  #limits: ResponseDeadlines | undefined;
  #requestComplete: boolean;
  #requestPump: Pump | undefined;
  /** The try that counts, and whom its response is told. */
  #try: UpstreamRequest | undefined;
  #sending: ForwardedRequest | undefined;
  #way: PooledConnection | undefined;
  #responsePassing: PassingBody | undefined;
  #responseOpened: OpenedBody | undefined;
  /** Of what a plugin read of a response and did not send on. */
  #readBytes = 0;
  #responsePump: Pump | undefined;
  #tunnel: Stream | undefined;
  #answered = false;
  /** A layer that everybody waited for, and how often in a row it was found so. */
  #held: { readonly by: Layer; ticks: number } | undefined;
  #over = false;

  constructor(
    asker: PluginResponseSink,
    asked: OutgoingRequest,
    { generation, route, context, exchange }: {
      readonly generation: Generation;
      readonly route: RequestRoute;
      readonly context: Context;
      readonly exchange: ExchangeValue;
    },
  ) {
    this.exchange = exchange;
    this.#asker = asker;
    this.#asked = asked;
    this.#generation = generation;
    this.#route = route;
    this.#context = context;
    this.#requestComplete = asked.endsWithHead;
    const body = this.#body = asked.endsWithHead ? undefined : new RequestBody(asker, asked.held);
    this.#passing = body ? new PassingBody(body, asked.request.length) : null;
    this.#onion = exchange.onion = new LayerStack(this);
    generation.enter();
  }

  /**
   * To be asked every `tickMs`: why the exchange must end, where one plugin has held it for too long
   * without asking anybody; `undefined`: it may go on.
   */
  stuckFor(tickMs: number): string | undefined {
    if (this.#generation.isClosed && this.#needsPlugins) return OVERDUE;
    const holder = this.#answered ? undefined : this.#onion.holder;
    if (!holder) return this.#held = undefined;
    // Only a plugin's own time counts: it cannot have what a caller or an endpoint has not sent.
    if (this.#body?.waitsForCaller || this.#responseOpened?.waitsForSender) return undefined;
    const held = this.#held?.by === holder ? this.#held : { by: holder, ticks: -1 };
    this.#held = held;
    if (++held.ticks * tickMs < HOOK_LIMIT_MS) return undefined;
    const reason = `no answer after ${HOOK_LIMIT_MS} ms`;
    holder.standing.failed(reason);
    return `${holder.name}: ${reason}`;
  }

  /** What only passes through goes on without them. */
  get #needsPlugins(): boolean {
    return !this.#answered || this.#requestPump?.isOver === false ||
      this.#responsePump?.isOver === false;
  }

  start(): void {
    const request = new PluginRequest(this.#asked.request, this.#passing);
    this.#onion.run(request).tell(this);
  }

  // What the layers want.

  get guards(): readonly Layer[] {
    return this.#generation.guards;
  }

  planOf(request: PluginRequest): RoutePlan | undefined {
    const plan = this.#generation.planOf(request);
    if (!plan) return undefined;
    this.#ways = this.#route.poolFor(plan.route.name, plan.resolver);
    if (this.#ways) this.#asker.goesTo(this.#ways.cluster);
    return plan;
  }

  limit(outcome: ResponseOutcome, timeoutMs: number): Deadline {
    const { deadlines } = this.#context;
    this.#limits ??= new ResponseDeadlines(deadlines, this.#requestComplete);
    return this.#limits.add(timeoutMs, () => {
      if (outcome.isOver) return;
      const reason = `not answered within ${timeoutMs} ms`;
      const failure = this.#failureOf("response_timed_out", reason);
      this.#try?.timedOut();
      this.#giveUp();
      outcome.settle(failed(failure));
    });
  }

  sendOn(request: PluginRequest, sending: ForwardedRequest): void {
    if (this.#over) return;
    this.#giveUp();
    this.#sending = sending;
    const { body, head } = request;
    const fault = this.#whyUnsendable(body);
    if (fault) return this.#fail("plugin_failed", fault);
    if (body instanceof MadeBody) {
      const pump = this.#requestPumpOf(body);
      if (!pump) return;
      this.#requestPump = pump;
    } else this.#body?.sentOn();
    const { name } = sending.plan.route;
    const ways = this.#ways;
    if (!ways) return this.#fail("route_not_found", `the route ${name} leads nowhere`);
    const { remote, held } = this.#asked;
    if (!ways.enter(held?.account.caller ?? "")) {
      return this.#fail("limit_reached", ways.whyFull());
    }
    const { avoid } = sending;
    const asked: OutgoingRequest = {
      request: head,
      endsWithHead: body === null,
      remote,
      avoid,
      held,
    };
    const hash = this.#route.hashFor?.(name);
    const upstream = this.#try = new UpstreamRequest(this, asked, {
      pool: ways,
      hash,
      context: this.#context,
    });
    upstream.start();
  }

  #whyUnsendable(body: PassingBody | MadeBody | null): string | undefined {
    if (!(body instanceof PassingBody)) return undefined;
    if (body !== this.#passing) return "the body is another message's";
    if (body.isOpen) return "the body was opened, and handed on all the same";
    if (!body.isReplayable) return "the body was sent before, and not all of it was kept";
    return undefined;
  }

  /** `null`: it cannot be read, which has been told. */
  #requestPumpOf(body: MadeBody): Pump | null {
    return pumpOf("request", body, {
      send: (chunk) => {
        const goesOn = this.#try?.send(chunk) !== false;
        // Where it waits now it is counted, too.
        this.#body?.sentOn();
        return goesOn;
      },
      end: () => this.#try?.end(undefined),
      fail: (code, reason) => this.#fail(code, reason),
    });
  }

  #giveUp(): void {
    const upstream = this.#try;
    this.#try = undefined;
    this.#way = undefined;
    this.#requestPump?.stop();
    this.#requestPump = undefined;
    if (!upstream) return;
    upstream.leave(true);
    this.#tunnel?.reset();
    this.#tunnel = undefined;
    this.#responsePassing = undefined;
    this.#responseOpened?.fail("response_reset", "given up");
    this.#responseOpened = undefined;
    this.#readIsGone();
    this.#body?.hold();
  }

  /** Of what is tried now. */
  #fail(code: ErrorCode, reason: string, tried = ""): void {
    const failure = this.#failureOf(code, reason, tried);
    this.#giveUp();
    this.#sending?.outcome.settle(failed(failure));
  }

  #failureOf(code: ErrorCode, reason: string, tried = ""): ResponseFailure {
    const address = this.#way?.host ?? tried;
    const endpoint = address === "" ? null : { address };
    return { code, reason, wasSent: this.#way !== undefined, endpoint };
  }

  /** What the layers made of it all. */
  settle(response: PluginResponse): void {
    if (this.#over) return;
    const { head, body, failure } = response;
    this.#answered = true;
    this.#body?.forget();
    this.#body?.sentOn();
    if (failure) {
      this.#giveUp();
      return this.#asker.answeredFor(failure.code, failure.reason, head.fields);
    }
    if (body instanceof PassingBody && (body !== this.#responsePassing || body.isOpen)) {
      this.#giveUp();
      const reason =
        "the response's body was opened, or is another's, and handed back all the same";
      return this.#asker.answeredFor("plugin_failed", reason, []);
    }
    if (response.endpoint === null) this.#asker.answersItself();
    const ends = body === null || this.#asked.request.method === "HEAD";
    if (body instanceof MadeBody) {
      if (!ends) return this.#answerMade(head, body);
      body.discard();
    }
    // Nobody wants the body that came with it.
    if (body === null && this.#responsePassing) this.#giveUp();
    const tunnel = this.#tunnel;
    this.#asker.responded(head, ends);
    tunnel?.resume();
    if (!ends) this.#try?.resume();
  }

  #answerMade(head: ResponseHead, body: MadeBody): void {
    // What it is made of may still come from there.
    if (!this.#responseOpened) this.#giveUp();
    const { whole } = body;
    if (whole) {
      this.#asker.responded(head, false);
      this.#asker.responseData(whole);
      this.#readIsGone();
      return this.#asker.responseEnd(undefined);
    }
    const pump = pumpOf("response", body, {
      send: (chunk) => {
        this.#asker.responseData(chunk);
        this.#readIsGone();
        // It may be made of the request.
        this.#body?.sentOn();
        return true;
      },
      end: () => this.#asker.responseEnd(undefined),
      fail: (code, reason) => this.#asker.upstreamFailed(code, reason, ""),
    });
    if (!pump) return;
    this.#responsePump = pump;
    this.#asker.responded(head, false);
    pump.start();
  }

  /** What a plugin read of a response has been sent on, or dropped. */
  #readIsGone(): void {
    this.#asked.held?.release(this.#readBytes);
    this.#readBytes = 0;
  }

  // What the caller's side does.

  end(trailers: Fields | undefined): void {
    this.#requestComplete = true;
    this.#limits?.requestComplete();
    this.#body?.end(trailers);
  }

  send(chunk: Uint8Array): boolean {
    return this.#body?.send(chunk) ?? true;
  }

  pause(): void {
    if (this.#responsePump) this.#responsePump.pause();
    else this.#try?.pause();
  }

  resume(): void {
    if (this.#responsePump) this.#responsePump.resume();
    else this.#try?.resume();
  }

  tunnel(): Stream | undefined {
    const held = this.#tunnel;
    this.#tunnel = undefined;
    return held ?? this.#try?.tunnel();
  }

  timedOut(): void {
    this.#try?.timedOut();
  }

  leave(isUnwanted: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#limits?.cancel();
    this.#requestPump?.stop();
    this.#responsePump?.stop();
    // Who opened a response need not have read all of it.
    this.#try?.leave(isUnwanted || this.#responseOpened !== undefined);
    this.#body?.abandon("the exchange is over");
    this.#responseOpened?.fail("downstream_reset", "the exchange is over");
    this.#readIsGone();
    this.#tunnel?.reset();
    this.#generation.leave();
  }

  /** After everything about it is known. */
  tellEnd(): void {
    this.exchange.over(this.#generation.log);
  }

  // What comes from upstream.

  reached(way: PooledConnection, lease: Lease | undefined): void {
    this.#way = way;
    this.#asker.reached(way, lease);
  }

  bodyWanted(): void {
    const upstream = this.#try;
    if (!upstream) return;
    const pump = this.#requestPump;
    if (!pump) this.#body?.passTo(upstream);
    else if (pump.isStarted) pump.resume();
    else pump.start();
  }

  bodyHeld(): void {
    this.#way = undefined;
    this.#body?.hold();
  }

  informed(head: ResponseHead): void {
    this.#asker.informed(head);
  }

  responded(head: ResponseHead, ends: boolean): void {
    const upstream = this.#try;
    const sending = this.#sending;
    if (!upstream || !sending) return;
    this.#responsePassing = ends ? undefined : new PassingBody(this, head.length);
    const endpoint = this.#way ? { address: this.#way.host } : null;
    const response = new PluginResponse(head, this.#responsePassing ?? null, {
      endpoint,
      failure: null,
    });
    sending.outcome.settle(response);
    if (this.#answered || this.#try !== upstream || this.#responseOpened) return;
    // A plugin waits for something before it goes on.
    if (opensTunnel(this.#asked.request, head.status)) {
      this.#tunnel = upstream.tunnel();
      this.#tunnel?.pause();
    } else upstream.pause();
  }

  // The response's body, for who opens it.

  get isReplayable(): boolean {
    return false;
  }

  keep(): void {}

  open(body: PassingBody): ReadableStream<Uint8Array> {
    const upstream = this.#try;
    if (!upstream || body !== this.#responsePassing) {
      throw new TypeError("body: its response was given up");
    }
    this.#responseOpened = new OpenedBody({
      more: () => upstream.resume(),
      cancel: () => {
        if (this.#try === upstream) this.#giveUp();
      },
    });
    return this.#responseOpened.stream;
  }

  responseData(chunk: Uint8Array): void {
    const opened = this.#responseOpened;
    if (!opened) return this.#asker.responseData(chunk);
    this.#readBytes += chunk.length;
    this.#asked.held?.holdRead(chunk.length);
    if (!opened.put(chunk)) this.#try?.pause();
  }

  responseEnd(trailers: Fields | undefined): void {
    if (!this.#responseOpened) return this.#asker.responseEnd(trailers);
    this.#responseOpened.end();
  }

  upstreamFailed(code: ErrorCode, reason: string, tried: string): void {
    if (!this.#sending?.outcome.hasCome) return this.#fail(code, reason, tried);
    if (this.#responseOpened) return this.#responseOpened.fail(code, reason);
    this.#asker.upstreamFailed(code, reason, tried);
  }
}
