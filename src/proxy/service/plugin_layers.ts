/** Runs the plugin layers of one exchange; bodies that no plugin opens pass unchanged. @module */

import { type Deadline, type ErrorCode } from "../../base/mod.ts";
import type { Fields, ResponseHead } from "../../http/mod.ts";
import type { Stream } from "../../net/mod.ts";
import {
  type ChosenTarget,
  failed,
  type ForwardedRequest,
  type Generation,
  type Layer,
  type LayerContext,
  type LayerDecided,
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
import type { UpstreamContext } from "../core/context.ts";
import type { Lease } from "../upstream/target_group.ts";
import { ResponseDeadlines } from "./response_deadlines.ts";
import type { ExchangeValue } from "./exchange_value.ts";
import { RequestBody } from "./request_body.ts";
import type { ChosenPool, RequestPool, RequestRoute } from "../upstream/request_pools.ts";
import {
  opensTunnel,
  type OutgoingRequest,
  type RequestHandle,
  type ResponseSink,
  UpstreamRequest,
} from "../upstream/upstream_request.ts";
import type { PooledConnection } from "../upstream/connection_pool.ts";

/** The caller's side of an exchange, with the callbacks that only plugins need. */
export interface PluginResponseSink extends ResponseSink {
  /** The cluster of the pool, the route that led to it, and the plugin that chose it; `""`: none did. */
  goesTo(cluster: string, route: string, chosenBy: string): void;
  /** The next response comes from a plugin, not from an endpoint. */
  answersItself(): void;
  /** A plugin refused, or the upstream failed. `fields` are added to the reply; absent: none. */
  fail(code: ErrorCode, reason: string, fields?: Fields): void;
}

/** How long a plugin may hold an exchange while it waits for work of its own. */
const HOOK_LIMIT_MS = 10_000;

const NO_TARGETS: ChosenPool = {
  kind: "none",
  reason: "is not there; this listener leads to the application only",
};

const OVERDUE = "its plugins were closed: others have taken their place long ago";

export interface PluginLayersOptions {
  readonly generation: Generation;
  readonly route: RequestRoute;
  readonly context: UpstreamContext;
  readonly exchange: ExchangeValue;
  /** For an exchange that is traced. */
  readonly decided?: LayerDecided | undefined;
}

export class PluginLayers
  implements RequestHandle, ResponseSink, LayerContext, PassingSource, ResponseListener {
  readonly tooLong = "response_invalid";
  readonly isReplayable = false;
  readonly exchange: ExchangeValue;
  readonly decided: LayerDecided | undefined;
  idleTimeoutMs: number | undefined;
  readonly #caller: PluginResponseSink;
  readonly #request: OutgoingRequest;
  readonly #options: PluginLayersOptions;
  /** Picked once for all attempts; a plugin may choose another. */
  #pool: RequestPool | undefined;
  /** A plugin chose the target of the attempt before. */
  #wasChosen = false;
  readonly #stack: LayerStack;
  /** The body of the request; absent: it has none. */
  readonly #body: RequestBody | undefined;
  readonly #passing: PassingBody | null;
  /** Made if a plugin sets a response timeout. */
  #limits: ResponseDeadlines | undefined;
  #requestComplete: boolean;
  #requestPump: Pump | undefined;
  /** The current attempt, and the target of its response. */
  #attempt: UpstreamRequest | undefined;
  #sending: ForwardedRequest | undefined;
  #connection: PooledConnection | undefined;
  #responsePassing: PassingBody | undefined;
  #responseOpened: OpenedBody | undefined;
  /** Response bytes that a plugin read and did not pass on. */
  #readBytes = 0;
  #responsePump: Pump | undefined;
  #tunnel: Stream | undefined;
  /** The attempt was answered with an accepted upgrade. */
  #isUpgrade = false;
  #isAnswered = false;
  /** The layer that holds the exchange, and for how many ticks in a row. */
  #holding: { readonly by: Layer; ticks: number } | undefined;
  #isOver = false;

  constructor(
    caller: PluginResponseSink,
    outgoing: OutgoingRequest,
    options: PluginLayersOptions,
  ) {
    const { generation, exchange } = this.#options = options;
    this.exchange = exchange;
    this.decided = options.decided;
    this.#caller = caller;
    this.#request = outgoing;
    this.#requestComplete = outgoing.endsWithHead;
    const body = this.#body = outgoing.endsWithHead
      ? undefined
      : new RequestBody(caller, outgoing.held);
    this.#passing = body ? new PassingBody(body, outgoing.request.length) : null;
    this.#stack = exchange.stack = new LayerStack(this);
    generation.enter();
  }

  /** Called every `tickMs`. Why the exchange must end: one plugin has held it for too long; `undefined`: it may go on. */
  stuckFor(tickMs: number): string | undefined {
    if (this.#options.generation.isClosed && this.#needsPlugins) return OVERDUE;
    const holder = this.#isAnswered ? undefined : this.#stack.holder;
    if (!holder) return this.#holding = undefined;
    // Time spent waiting for the caller or an endpoint does not count.
    if (this.#body?.waitsForCaller || this.#responseOpened?.waitsForSender) return undefined;
    const held = this.#holding?.by === holder ? this.#holding : { by: holder, ticks: -1 };
    this.#holding = held;
    if (++held.ticks * tickMs < HOOK_LIMIT_MS) return undefined;
    const reason = `no answer after ${HOOK_LIMIT_MS} ms`;
    holder.health.failed(reason);
    return `${holder.name}: ${reason}`;
  }

  /** False: both bodies pass through, which works without the plugins. */
  get #needsPlugins(): boolean {
    return !this.#isAnswered || this.#requestPump?.isOver === false ||
      this.#responsePump?.isOver === false;
  }

  start(): void {
    const request = new PluginRequest(this.#request.request, this.#passing);
    this.#stack.run(request).listen(this);
  }

  // Called by the layers.

  get guards(): readonly Layer[] {
    return this.#options.generation.guards;
  }

  planOf(request: PluginRequest): RoutePlan | undefined {
    const plan = this.#options.generation.planOf(request);
    if (!plan) return undefined;
    this.#pool = this.#options.route.poolFor(plan.route.name, plan.resolver);
    if (this.#pool) this.#caller.goesTo(this.#pool.cluster, plan.route.name, "");
    return plan;
  }

  limit(outcome: ResponseOutcome, timeoutMs: number): Deadline {
    const { context: { deadlines } } = this.#options;
    this.#limits ??= new ResponseDeadlines(deadlines, this.#requestComplete);
    return this.#limits.add(timeoutMs, () => {
      if (outcome.isOver) return;
      const failure = this.#failureOf("response_timed_out", `not answered within ${timeoutMs} ms`);
      this.#attempt?.timedOut();
      this.#abandonAttempt();
      outcome.settle(failed(failure));
    });
  }

  sendOn(request: PluginRequest, sending: ForwardedRequest): void {
    if (this.#isOver) return;
    this.#abandonAttempt();
    this.#sending = sending;
    const { body, head } = request;
    const fault = this.#whyUnsendable(body);
    if (fault) return this.#fail("plugin_failed", fault);
    if (body instanceof MadeBody) {
      const pump = this.#requestPumpOf(body);
      if (!pump) return;
      this.#requestPump = pump;
    } else this.#body?.sentOn();
    const { route, context } = this.#options;
    const { chosen, plan: { route: { name } } } = sending;
    const found = chosen && this.#poolAt(chosen, name);
    if (found?.kind === "none") {
      this.#caller.goesTo("", name, chosen?.by ?? "");
      return this.#fail("target_not_found", found.reason);
    }
    const pool = found?.pool ?? this.#pool;
    if (!pool) return this.#fail("route_not_found", `the route ${name} leads nowhere`);
    if (chosen || this.#wasChosen) this.#caller.goesTo(pool.cluster, name, chosen?.by ?? "");
    this.#wasChosen = chosen !== undefined;
    const { remote, held } = this.#request;
    if (!pool.enter(held?.account.caller ?? "")) {
      return this.#fail("limit_reached", pool.whyFull());
    }
    const { avoid } = sending;
    const outgoing = { request: head, endsWithHead: body === null, remote, avoid, held };
    const hash = found ? found.hash : route.hashFor?.(name);
    this.#attempt = new UpstreamRequest(this, outgoing, { pool, hash, context });
    this.#attempt.start();
  }

  #poolAt({ target, by }: ChosenTarget, route: string): ChosenPool {
    const found = this.#options.route.poolAt?.(target, route) ?? NO_TARGETS;
    if (found.kind === "pool") return found;
    const reason = `${by} chose ${JSON.stringify(target)}, which ${found.reason}`;
    return { kind: "none", reason };
  }

  #whyUnsendable(body: PassingBody | MadeBody | null): string | undefined {
    if (!(body instanceof PassingBody)) return undefined;
    if (body !== this.#passing) return "the body is another message's";
    if (body.isOpen) return "the body was opened, and handed on all the same";
    if (!body.isReplayable) return "the body was sent before, and not all of it was kept";
    return undefined;
  }

  /** `null`: the stream cannot be read; the exchange has failed. */
  #requestPumpOf(body: MadeBody): Pump | null {
    return pumpOf("request", body, {
      send: (chunk) => {
        const hasRoom = this.#attempt?.send(chunk) !== false;
        // A chunk that waits further in is counted as well.
        this.#body?.sentOn();
        return hasRoom;
      },
      end: () => this.#attempt?.end(undefined),
      fail: (code, reason) => this.#fail(code, reason),
    });
  }

  #abandonAttempt(): void {
    const upstream = this.#attempt;
    this.#attempt = undefined;
    this.#connection = undefined;
    this.#isUpgrade = false;
    this.#requestPump?.stop();
    this.#requestPump = undefined;
    if (!upstream) return;
    upstream.leave(true);
    this.#tunnel?.reset();
    this.#tunnel = undefined;
    this.#responsePassing = undefined;
    this.#responseOpened?.fail("response_reset", "given up");
    this.#responseOpened = undefined;
    this.#releaseRead();
    this.#body?.hold();
  }

  #fail(code: ErrorCode, reason: string, tried = ""): void {
    const failure = this.#failureOf(code, reason, tried);
    this.#abandonAttempt();
    this.#sending?.outcome.settle(failed(failure));
  }

  #failureOf(code: ErrorCode, reason: string, tried = ""): ResponseFailure {
    const address = this.#connection?.reached.host ?? tried;
    const endpoint = address === "" ? null : { address };
    return { code, reason, wasSent: this.#connection !== undefined, endpoint };
  }

  /** Receives the response of the outermost layer. */
  settle(response: PluginResponse): void {
    if (this.#isOver) return;
    const { head, body, failure } = response;
    this.#isAnswered = true;
    this.#body?.forget();
    this.#body?.sentOn();
    if (failure) {
      this.#abandonAttempt();
      return this.#caller.fail(failure.code, failure.reason, head.fields);
    }
    if (body instanceof PassingBody && (body !== this.#responsePassing || body.isOpen)) {
      this.#abandonAttempt();
      const reason =
        "the response's body was opened, or is another's, and handed back all the same";
      return this.#caller.fail("plugin_failed", reason);
    }
    if (response.endpoint === null) this.#caller.answersItself();
    const ends = body === null || this.#request.request.method === "HEAD";
    if (body instanceof MadeBody) {
      if (!ends) return this.#answerMade(head, body);
      body.discard();
    }
    // The body of the attempt was dropped, or the upgrade that it accepted.
    const isDropped = this.#isUpgrade
      ? !opensTunnel(this.#request.request, head.status)
      : this.#responsePassing !== undefined;
    if (body === null && isDropped) this.#abandonAttempt();
    const tunnel = this.#tunnel;
    this.#caller.responded(head, ends);
    tunnel?.resume();
    if (!ends) this.#attempt?.resume();
  }

  #answerMade(head: ResponseHead, body: MadeBody): void {
    // The stream may be made from the attempt's body.
    if (!this.#responseOpened) this.#abandonAttempt();
    const { whole } = body;
    if (whole) {
      this.#caller.responded(head, false);
      this.#caller.responseData(whole);
      this.#releaseRead();
      return this.#caller.responseEnd(undefined);
    }
    const pump = pumpOf("response", body, {
      send: (chunk) => {
        this.#caller.responseData(chunk);
        this.#releaseRead();
        // The stream may be made from the request's body.
        this.#body?.sentOn();
        return true;
      },
      end: () => this.#caller.responseEnd(undefined),
      fail: (code, reason) => this.#caller.upstreamFailed(code, reason, ""),
    });
    if (!pump) return;
    this.#responsePump = pump;
    this.#caller.responded(head, false);
    pump.start();
  }

  /** Bytes that a plugin read of a response were passed on, or dropped. */
  #releaseRead(): void {
    this.#request.held?.release(this.#readBytes);
    this.#readBytes = 0;
  }

  // Called by the caller's side.

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
    else this.#attempt?.pause();
  }

  resume(): void {
    if (this.#responsePump) this.#responsePump.resume();
    else this.#attempt?.resume();
  }

  tunnel(): Stream | undefined {
    const held = this.#tunnel;
    this.#tunnel = undefined;
    return held ?? this.#attempt?.tunnel();
  }

  timedOut(): void {
    this.#attempt?.timedOut();
  }

  leave(isUnwanted: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#limits?.cancel();
    this.#requestPump?.stop();
    this.#responsePump?.stop();
    // A plugin that opened a response may not have read all of it.
    this.#attempt?.leave(isUnwanted || this.#responseOpened !== undefined);
    this.#body?.abandon("the exchange is over");
    this.#responseOpened?.fail("downstream_reset", "the exchange is over");
    this.#releaseRead();
    this.#tunnel?.reset();
    if (this.#isAnswered) this.#stack.isOver = true;
    else this.#stack.end(failed(this.#failureOf("downstream_reset", "the exchange is over")));
    this.#options.generation.leave();
  }

  /** Called once the record of the exchange is complete. */
  endExchange(): void {
    this.exchange.over(this.#options.generation.log);
  }

  // Called by the upstream request.

  reached(connection: PooledConnection, lease: Lease | undefined): void {
    this.#connection = connection;
    this.#caller.reached(connection, lease);
  }

  bodyWanted(): void {
    const upstream = this.#attempt;
    if (!upstream) return;
    const pump = this.#requestPump;
    if (!pump) this.#body?.passTo(upstream);
    else if (pump.isStarted) pump.resume();
    else pump.start();
  }

  bodyHeld(): void {
    this.#connection = undefined;
    this.#body?.hold();
  }

  informed(head: ResponseHead): void {
    this.#caller.informed(head);
  }

  responded(head: ResponseHead, ends: boolean): void {
    const upstream = this.#attempt;
    const sending = this.#sending;
    if (!upstream || !sending) return;
    const acceptsUpgrade = this.#isUpgrade = opensTunnel(this.#request.request, head.status);
    const body = this.#responsePassing = ends || acceptsUpgrade
      ? undefined
      : new PassingBody(this, head.length);
    const endpoint = this.#connection ? { address: this.#connection.reached.host } : null;
    const by = { endpoint, failure: null, acceptsUpgrade };
    sending.outcome.settle(new PluginResponse(head, body ?? null, by));
    if (this.#isAnswered || this.#attempt !== upstream || this.#responseOpened) return;
    // A plugin holds the response.
    if (acceptsUpgrade) {
      this.#tunnel = upstream.tunnel();
      this.#tunnel?.pause();
    } else upstream.pause();
  }

  // The response's body, called by a plugin that opens it.

  keep(): void {}

  open(body: PassingBody): ReadableStream<Uint8Array> {
    const upstream = this.#attempt;
    if (!upstream || body !== this.#responsePassing) {
      throw new TypeError("body: its response was given up");
    }
    this.#responseOpened = new OpenedBody({
      more: () => upstream.resume(),
      cancel: () => {
        if (this.#attempt === upstream) this.#abandonAttempt();
      },
    });
    return this.#responseOpened.stream;
  }

  responseData(chunk: Uint8Array): void {
    const opened = this.#responseOpened;
    if (!opened) return this.#caller.responseData(chunk);
    this.#readBytes += chunk.length;
    this.#request.held?.holdRead(chunk.length);
    if (!opened.put(chunk)) this.#attempt?.pause();
  }

  responseEnd(trailers: Fields | undefined): void {
    if (!this.#responseOpened) return this.#caller.responseEnd(trailers);
    this.#responseOpened.end();
  }

  upstreamFailed(code: ErrorCode, reason: string, tried: string): void {
    if (!this.#sending?.outcome.hasCome) return this.#fail(code, reason, tried);
    if (this.#responseOpened) return this.#responseOpened.fail(code, reason);
    this.#caller.upstreamFailed(code, reason, tried);
  }
}
