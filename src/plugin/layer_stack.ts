/**
 * The layers around one exchange: what each hands on goes further in, what it hands back goes further out.
 * A layer that breaks the contract is named, and stood in for as its configuration says; nothing that it
 * does is thrown from here.
 *
 * @module
 */

import { type Deadline, messageOf } from "../base/mod.ts";
import type { Answer, Change, Endpoint, Exchange, Phase, Plugin, Route } from "./api.ts";
import { faultOf } from "./source_positions.ts";
import { isStreamOf, PassingBody } from "./body.ts";
import { failed, type MessageBody, PluginRequest, PluginResponse } from "./messages.ts";
import { ResponseOutcome } from "./response_outcome.ts";
import type { LayerHealth } from "./plugin_health.ts";
import { brokenBodyOf } from "./broken_body.ts";

/** One hook at its place. */
export interface Layer {
  readonly name: string;
  readonly phase: Phase;
  readonly plugin: Pick<Plugin, "onRequest">;
  /** Of its plugin, for the route that it is on. */
  readonly routeConfig: unknown;
  /** Never of a guard. */
  readonly mayBeSkipped: boolean;
  readonly standing: LayerHealth;
}

/** Where a request that no guard answered goes: a route, and the layers on it. */
export interface RoutePlan {
  readonly route: Route;
  /** Of the route's split that was chosen; `undefined`: none was. */
  readonly resolver: string | undefined;
  readonly layers: readonly Layer[];
}

/** What is around the layers. */
export interface LayerContext {
  readonly exchange: Exchange;
  readonly guards: readonly Layer[];
  /** `undefined`: no route takes it. */
  planOf(request: PluginRequest): RoutePlan | undefined;
  /** To an endpoint; more than once where a layer tries again, and then what was before is given up. */
  sendOn(request: PluginRequest, to: ForwardedRequest): void;
  /** Settles `outcome` with a failure where it is not, so long after the request was complete. */
  limit(outcome: ResponseOutcome, timeoutMs: number): Deadline;
  /** See {@link Change.idleTimeoutMs}. */
  idleTimeoutMs: number | undefined;
}

export interface ForwardedRequest {
  readonly plan: RoutePlan;
  /** Endpoints to be passed over where there are others. */
  readonly avoid: readonly Endpoint[];
  readonly outcome: ResponseOutcome;
}

const NOBODY: readonly Endpoint[] = [];
const NO_CHANGE: Change = {};

export class LayerStack {
  readonly around: LayerContext;
  /** Once it is known; the same for all tries. */
  plan: RoutePlan | undefined;
  avoid = NOBODY;
  /** The layer that everybody waits for; `undefined`: it is an endpoint. */
  holder: Layer | undefined;

  constructor(around: LayerContext) {
    this.around = around;
  }

  /** What becomes of the request, now or later. */
  run(request: PluginRequest): ResponseOutcome {
    const outcome = new ResponseOutcome();
    this.enter(0, request, outcome);
    return outcome;
  }

  /** To the layer at that depth, or on to an endpoint where there is none. */
  enter(depth: number, request: PluginRequest, outcome: ResponseOutcome): void {
    const { guards } = this.around;
    const guard = guards[depth];
    if (guard) return new Call(this, guard, depth).run(request, outcome);
    let plan: RoutePlan | undefined;
    try {
      plan = this.plan ??= this.around.planOf(request);
    } catch (error) {
      return outcome.settle(
        failed({ ...NOT_SENT, code: "plugin_failed", reason: messageOf(error) }),
      );
    }
    if (!plan) {
      const reason = `no route of this listener takes ${request.method} ${request.path}`;
      return outcome.settle(failed({ ...NOT_SENT, code: "route_not_found", reason }));
    }
    const layer = plan.layers[depth - guards.length];
    if (layer) return new Call(this, layer, depth).run(request, outcome);
    this.holder = undefined;
    this.around.sendOn(request, { plan, avoid: this.avoid, outcome });
  }
}

/** Whoever wants what a layer gives back. */
type Waiting = Pick<ResponseOutcome, "isOver" | "settle">;

/** What a layer was asked for. */
interface AskedOf {
  readonly hook: "onRequest" | "response";
  /** Where it fails and may be skipped; `why` is told where it cannot be. */
  readonly instead: (why: string) => void;
}

/** It answers later. */
interface Awaited extends AskedOf {
  readonly passed: (response: PluginResponse) => void;
  /** The response that it got; `undefined`: none. */
  readonly given: () => PluginResponse | undefined;
}

/** A layer's part in one exchange. */
class Call {
  readonly #onion: LayerStack;
  readonly #layer: Layer;
  readonly #depth: number;
  /** Of what it asked for last. */
  #inner: ResponseOutcome | undefined;
  /** How it did is told later: when it has changed the response, or what it made has come to its end. */
  #isToldLater = false;
  /** Where it is looked at how long it keeps the thread; later by what it spends further in. */
  #startedMs: number | undefined;
  /** The same of what it does once it has what it waited for, until it waits for something else. */
  #resumedMs: number | undefined;

  constructor(onion: LayerStack, layer: Layer, depth: number) {
    this.#onion = onion;
    this.#layer = layer;
    this.#depth = depth;
  }

  run(request: PluginRequest, outcome: ResponseOutcome): void {
    const onion = this.#onion;
    const layer = this.#layer;
    const { standing } = layer;
    if (!standing.mayBeAsked()) {
      const instead = (why: string) => this.#goOn(why, request, outcome);
      return this.#instead(standing.whyBroken, outcome, instead);
    }
    this.#startedMs = standing.begin();
    onion.holder = layer;
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      answer = layer.plugin.onRequest?.({
        request,
        exchange: onion.around.exchange,
        route: onion.plan?.route,
        routeConfig: layer.routeConfig,
      }, (change) => this.#next(request, outcome, change));
    } catch (error) {
      fault = faultOf(error);
    }
    if (this.#startedMs !== undefined) standing.end(this.#startedMs, "onRequest");
    const inner = this.#inner;
    // A layer that waits for nothing has told by now.
    if (answer instanceof PluginResponse) {
      fault = whySpoilt(layer, answer, inner?.value);
      if (fault === undefined) {
        this.#passed(answer);
        return outcome.settle(answer);
      }
    } else if (inner && answer === inner) {
      this.#passed();
      return inner.tell(outcome);
    }
    const hook = "onRequest";
    const instead = (why: string) => this.#goOn(why, request, outcome);
    if (fault !== undefined) return this.#fault(fault, outcome, { hook, instead });
    // It is waited for from now on, or once what it waits for has come.
    if (inner && !inner.value) inner.tell({ settle: () => this.#resume() });
    this.#await(answer, outcome, {
      ...{ hook, instead },
      given: () => this.#inner?.value,
      passed: (response) => this.#passed(response),
    });
  }

  #next(request: PluginRequest, outcome: ResponseOutcome, change: Change = NO_CHANGE): Answer {
    const onion = this.#onion;
    const layer = this.#layer;
    const { phase, standing } = layer;
    if (outcome.isOver) throw new TypeError("next was called after an answer was given");
    if (this.#inner && phase !== "retry") throw new TypeError("next was called twice");
    const changed = requestOf(change) ?? request;
    const spoilt = this.#inner ? undefined : whySpoilt(layer, changed, request);
    if (spoilt !== undefined) throw new TypeError(spoilt);
    if (isStreamOf(changed.body, layer)) this.#isToldLater = true;
    const { response: map, timeoutMs, avoid, idleTimeoutMs } = change;
    if (avoid && phase === "retry") onion.avoid = avoid;
    if (idleTimeoutMs !== undefined) onion.around.idleTimeoutMs = idleTimeoutMs;
    let inner: ResponseOutcome;
    if (map === undefined && !timeoutMs) inner = new ResponseOutcome(outcome);
    else {
      let limit: Deadline | undefined;
      inner = new ResponseOutcome(outcome, (response) => {
        limit?.cancel();
        if (map) this.#map(map, response, inner);
        else inner.become(response);
      });
      if (timeoutMs) limit = onion.around.limit(inner, timeoutMs);
      this.#isToldLater ||= map !== undefined;
    }
    this.#inner = inner;
    const leftMs = this.#startedMs === undefined ? 0 : standing.nowMs();
    onion.enter(this.#depth + 1, changed, inner);
    if (this.#startedMs !== undefined) this.#startedMs += standing.nowMs() - leftMs;
    return inner.value ?? inner;
  }

  #map(
    map: NonNullable<Change["response"]>,
    response: PluginResponse,
    outcome: ResponseOutcome,
  ): void {
    const layer = this.#layer;
    const { standing } = layer;
    this.#onion.holder = layer;
    const startedMs = standing.begin();
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      answer = map(response);
    } catch (error) {
      fault = faultOf(error);
    }
    if (startedMs !== undefined) standing.end(startedMs, "response");
    if (answer instanceof PluginResponse) {
      fault = whySpoilt(layer, answer, response);
      if (fault === undefined) {
        if (!isStreamOf(answer.body, layer)) standing.passed();
        return outcome.become(answer);
      }
    }
    const asked: Awaited = {
      hook: "response",
      given: () => response,
      passed: ({ body }) => {
        if (!isStreamOf(body, layer)) standing.passed();
      },
      instead: (why) => this.#asItWas(why, response, to),
    };
    const to: Waiting = {
      get isOver() {
        return outcome.isDone;
      },
      settle: (response) => outcome.become(response),
    };
    if (fault !== undefined) this.#fault(fault, to, asked);
    else this.#await(answer, to, asked);
  }

  #resume(): void {
    const { standing } = this.#layer;
    this.#onion.holder = this.#layer;
    if (this.#startedMs === undefined) return;
    // It goes on after what is done now, and before anything else is.
    queueMicrotask(() => this.#resumedMs = standing.nowMs());
    setImmediate(() => this.#resumedMs = undefined);
  }

  /** It has answered after all. */
  #answered(): void {
    if (this.#resumedMs !== undefined) this.#layer.standing.end(this.#resumedMs, "onRequest");
    this.#resumedMs = undefined;
  }

  #passed(response?: PluginResponse): void {
    if (response && isStreamOf(response.body, this.#layer)) this.#isToldLater = true;
    if (!this.#isToldLater) this.#layer.standing.passed();
  }

  /** As if the layer were not there, unless it spoilt the body. */
  #goOn(why: string, request: PluginRequest, outcome: ResponseOutcome): void {
    if (this.#inner) {
      this.#inner.tell({ settle: (response) => this.#asItWas(why, response, outcome) });
    } else if (isOpen(request.body)) this.#refuse(why, outcome);
    else this.#onion.enter(this.#depth + 1, request, outcome);
  }

  #asItWas(why: string, response: PluginResponse, to: Waiting): void {
    if (isOpen(response.body)) this.#refuse(why, to);
    else to.settle(response);
  }

  #await(answer: Answer | undefined, to: Waiting, asked: Awaited): void {
    const notOne = "the hook gave no response back";
    if (typeof answer !== "object" || answer === null || !("then" in answer)) {
      return this.#fault(notOne, to, asked);
    }
    answer.then(
      (response) => {
        this.#answered();
        if (!(response instanceof PluginResponse)) return this.#fault(notOne, to, asked);
        const spoilt = whySpoilt(this.#layer, response, asked.given());
        if (spoilt !== undefined) return this.#fault(spoilt, to, asked);
        asked.passed(response);
        to.settle(response);
      },
      (error) => {
        this.#answered();
        const broken = brokenBodyOf(error);
        if (!broken) return this.#fault(faultOf(error), to, asked);
        const { code, message: reason } = broken;
        to.settle(failed({ code, reason, wasSent: true, endpoint: null }));
      },
    );
  }

  #fault(what: string, to: Waiting, { hook, instead }: AskedOf): void {
    if (to.isOver) return;
    this.#layer.standing.failed(what, { hook, route: this.#onion.plan?.route.name });
    this.#instead(what, to, instead);
  }

  #instead(why: string, to: Waiting, instead: AskedOf["instead"]): void {
    if (this.#layer.mayBeSkipped) instead(why);
    else this.#refuse(why, to);
  }

  #refuse(why: string, to: Waiting): void {
    const reason = `${this.#layer.name}: ${why}`;
    to.settle(failed({ ...NOT_SENT, code: "plugin_failed", reason }));
  }
}

const NOT_SENT = { wasSent: false, endpoint: null } as const;

function isOpen(body: MessageBody | null): boolean {
  return body instanceof PassingBody && body.isOpen;
}

/** Why nobody can read the body that a layer handed on in place of the `given` one; `undefined`: it can be. */
function whySpoilt(
  layer: Layer,
  { body }: PluginRequest | PluginResponse,
  given: PluginRequest | PluginResponse | undefined,
): string | undefined {
  if (!(body instanceof PassingBody)) return undefined;
  if (body.isOpen) return "the body was opened, and handed on all the same";
  // Who tries again has more than one response to choose from.
  const isForeign = body !== given?.body && layer.phase !== "retry";
  return isForeign ? "the body is another message's" : undefined;
}

function requestOf({ request }: Change): PluginRequest | undefined {
  if (request === undefined || request instanceof PluginRequest) return request;
  throw new TypeError("next: the request was not made by request.with()");
}
