/** Runs the plugin layers of one exchange. Nothing that a layer does is thrown from here. @module */

import { type Deadline, messageOf } from "../base/mod.ts";
import type { Answer, Change, Endpoint, Exchange, Phase, Plugin, Route, Target } from "./api.ts";
import { faultOf } from "./source_positions.ts";
import { brokenBodyOf, isStreamOf, PassingBody } from "./body.ts";
import {
  failed,
  type MessageBody,
  notSent,
  PluginRequest,
  PluginResponse,
  ResponseOutcome,
} from "./messages.ts";
import { IN } from "./hook_marks.ts";
import type { LayerHealth } from "./plugin_health.ts";

export interface Layer {
  readonly name: string;
  readonly phase: Phase;
  readonly plugin: Pick<Plugin, "onRequest">;
  /** The plugin's configuration for the route. */
  readonly routeConfig: unknown;
  /** A failed layer is skipped; never true for a guard. */
  readonly mayBeSkipped: boolean;
  readonly health: LayerHealth;
}

/** A route and its layers, for requests that passed the guards. */
export interface RoutePlan {
  readonly route: Route;
  /** The resolver of the chosen split; `undefined`: none was chosen. */
  readonly resolver: string | undefined;
  readonly layers: readonly Layer[];
}

/** The context of the layers: an exchange of the proxy, or a dry run. */
export interface LayerContext {
  readonly exchange: Exchange;
  readonly guards: readonly Layer[];
  /** `undefined`: no route matches. */
  planOf(request: PluginRequest): RoutePlan | undefined;
  /** Sends the request to an endpoint. A second call, by a retry, abandons the attempt before. */
  sendOn(request: PluginRequest, to: ForwardedRequest): void;
  /** Settles `outcome` with a failure if it is not settled so long after the request was complete. */
  limit(outcome: ResponseOutcome, timeoutMs: number): Deadline;
  /** See {@link Change.idleTimeoutMs}. */
  idleTimeoutMs: number | undefined;
  /** Told which layer decided the request, or failed; absent: nobody records it. */
  readonly decided?: LayerDecided | undefined;
}

/** `code`: of a refusal. */
export type LayerDecided = (
  layer: Pick<Layer, "name" | "phase">,
  what: { readonly kind: "answered" | "refused" | "failed"; readonly code?: string },
) => void;

/** The target that a layer chose in place of that of the chain. */
export interface ChosenTarget {
  readonly target: Target;
  /** The name of the plugin. */
  readonly by: string;
}

export interface ForwardedRequest {
  readonly plan: RoutePlan;
  /** `undefined`: the chain decides. */
  readonly chosen: ChosenTarget | undefined;
  /** Endpoints that are not picked while there are others. */
  readonly avoid: readonly Endpoint[];
  readonly outcome: ResponseOutcome;
}

const NO_ENDPOINTS: readonly Endpoint[] = [];
const NO_CHANGE: Change = {};
const ANSWERED = { kind: "answered" } as const;
const FAILED = { kind: "failed" } as const;

export class LayerStack {
  readonly context: LayerContext;
  /** `undefined` before the route is known; the same for all attempts. */
  plan: RoutePlan | undefined;
  avoid = NO_ENDPOINTS;
  /** Set for the layers further in whenever a layer continues. */
  chosen: ChosenTarget | undefined;
  /** The layer that the exchange waits for; `undefined`: it waits for an endpoint. */
  holder: Layer | undefined;
  /** The outcome of the innermost `next`. */
  innermost: ResponseOutcome | undefined;
  /** The exchange has ended; nothing more is sent, and no failure of a layer counts. */
  isOver = false;

  constructor(context: LayerContext) {
    this.context = context;
  }

  /** Starts the request at the outermost layer. */
  run(request: PluginRequest): ResponseOutcome {
    const outcome = new ResponseOutcome();
    this.enter(0, request, outcome);
    return outcome;
  }

  /** Ends every `next` that waits still with `failure`, so that its layer can clean up. */
  end(failure: PluginResponse): void {
    this.isOver = true;
    for (let outcome = this.innermost; outcome; outcome = outcome.outer) outcome.settle(failure);
  }

  /** Calls the layer at that depth; past the last layer the request is sent on. */
  enter(depth: number, request: PluginRequest, outcome: ResponseOutcome): void {
    const { guards } = this.context;
    const guard = guards[depth];
    if (guard) return new LayerCall(this, guard, depth).run(request, outcome);
    let plan: RoutePlan | undefined;
    try {
      plan = this.plan ??= this.context.planOf(request);
    } catch (error) {
      return outcome.settle(notSent("plugin_failed", messageOf(error)));
    }
    if (!plan) {
      const reason = `no route of this listener takes ${request.method} ${request.path}`;
      return outcome.settle(notSent("route_not_found", reason));
    }
    const layer = plan.layers[depth - guards.length];
    if (layer) return new LayerCall(this, layer, depth).run(request, outcome);
    this.holder = undefined;
    this.context.sendOn(request, { plan, chosen: this.chosen, avoid: this.avoid, outcome });
  }
}

type ResponseTarget = Pick<ResponseOutcome, "isOver" | "settle">;

interface HookCall {
  readonly hook: "onRequest" | "response";
  /** Runs if the layer fails and may be skipped. `why` is the reason given if it cannot be skipped. */
  readonly skip: (why: string) => void;
}

/** A hook that returned a promise. */
interface PendingHookCall extends HookCall {
  readonly passed: (response: PluginResponse) => void;
  /** The response that the layer received; `undefined`: none. */
  readonly given: () => PluginResponse | undefined;
}

/** The calls of one layer's hooks in one exchange. */
class LayerCall {
  readonly #stack: LayerStack;
  readonly #layer: Layer;
  readonly #depth: number;
  /** The choice of the layers further out. */
  readonly #chosen: ChosenTarget | undefined;
  /** The outcome of the last `next`. */
  #inner: ResponseOutcome | undefined;
  /** Success is recorded later: after the response was changed, or at the end of a stream the layer made. */
  #passesLater = false;
  /** Set if this call is timed. It moves forward by the time spent in inner layers. */
  #startedMs: number | undefined;
  /** The same for the code that runs after an awaited response arrived, until it awaits again. */
  #resumedMs: number | undefined;

  constructor(stack: LayerStack, layer: Layer, depth: number) {
    this.#stack = stack;
    this.#layer = layer;
    this.#depth = depth;
    this.#chosen = stack.chosen;
  }

  run(request: PluginRequest, outcome: ResponseOutcome): void {
    const stack = this.#stack;
    const layer = this.#layer;
    const { health } = layer;
    if (!health.mayBeCalled()) {
      const skip = (why: string) => this.#continue(why, request, outcome);
      return this.#skipOrRefuse(health.whyBroken, outcome, skip);
    }
    this.#startedMs = health.begin();
    stack.holder = layer;
    const outer = health.enter(IN.onRequest);
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      answer = layer.plugin.onRequest?.({
        request,
        exchange: stack.context.exchange,
        route: stack.plan?.route,
        routeConfig: layer.routeConfig,
      }, (change) => this.#next(request, outcome, change));
    } catch (error) {
      fault = faultOf(error);
    }
    health.leave(outer);
    if (this.#startedMs !== undefined) health.end(this.#startedMs, "onRequest");
    const inner = this.#inner;
    // A synchronous layer has returned its response by now.
    if (answer instanceof PluginResponse) {
      fault = whyUnsendable(layer, answer, inner?.value);
      if (fault === undefined) {
        this.#passed(answer);
        return outcome.settle(answer);
      }
    } else if (inner && answer === inner) {
      this.#passed();
      return inner.listen(outcome);
    }
    const hook = "onRequest";
    const skip = (why: string) => this.#continue(why, request, outcome);
    if (fault !== undefined) return this.#fault(fault, outcome, { hook, skip });
    // The layer is the holder again once the response that it awaits has arrived.
    if (inner && !inner.value) inner.listen({ settle: () => this.#resume() });
    this.#await(answer, outcome, {
      hook,
      skip,
      given: () => this.#inner?.value,
      passed: (response) => this.#passed(response),
    });
  }

  #next(request: PluginRequest, outcome: ResponseOutcome, change: Change = NO_CHANGE): Answer {
    const stack = this.#stack;
    const layer = this.#layer;
    const { phase, health } = layer;
    if (stack.isOver) throw new TypeError("next was called after the exchange had ended");
    if (outcome.isOver) throw new TypeError("next was called after an answer was given");
    if (this.#inner && phase !== "retry") throw new TypeError("next was called twice");
    const changed = requestOf(change) ?? request;
    const fault = this.#inner ? undefined : whyUnsendable(layer, changed, request);
    if (fault !== undefined) throw new TypeError(fault);
    if (isStreamOf(changed.body, layer)) this.#passesLater = true;
    const { response: map, timeoutMs, avoid, idleTimeoutMs, target } = change;
    stack.chosen = target === undefined ? this.#chosen : chosenBy(layer, target);
    if (avoid && phase === "retry") stack.avoid = avoid;
    if (idleTimeoutMs !== undefined) stack.context.idleTimeoutMs = idleTimeoutMs;
    let inner: ResponseOutcome;
    if (map === undefined && !timeoutMs) inner = new ResponseOutcome(outcome);
    else {
      let limit: Deadline | undefined;
      inner = new ResponseOutcome(outcome, (response) => {
        limit?.cancel();
        if (map) this.#map(map, response, inner);
        else inner.become(response);
      });
      if (timeoutMs) limit = stack.context.limit(inner, timeoutMs);
      this.#passesLater ||= map !== undefined;
    }
    this.#inner = stack.innermost = inner;
    const leftMs = this.#startedMs === undefined ? 0 : health.nowMs();
    stack.enter(this.#depth + 1, changed, inner);
    if (this.#startedMs !== undefined) this.#startedMs += health.nowMs() - leftMs;
    return inner.value ?? inner;
  }

  #map(
    map: NonNullable<Change["response"]>,
    response: PluginResponse,
    outcome: ResponseOutcome,
  ): void {
    const layer = this.#layer;
    const { health } = layer;
    this.#stack.holder = layer;
    const startedMs = health.begin();
    const outer = health.enter(IN.response);
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      answer = map(response);
    } catch (error) {
      fault = faultOf(error);
    }
    health.leave(outer);
    if (startedMs !== undefined) health.end(startedMs, "response");
    if (answer instanceof PluginResponse) {
      fault = whyUnsendable(layer, answer, response);
      if (fault === undefined) {
        if (!isStreamOf(answer.body, layer)) health.passed();
        return outcome.become(answer);
      }
    }
    const call: PendingHookCall = {
      hook: "response",
      given: () => response,
      passed: ({ body }) => {
        if (!isStreamOf(body, layer)) health.passed();
      },
      skip: (why) => this.#passUnchanged(why, response, to),
    };
    const to: ResponseTarget = {
      get isOver() {
        return outcome.isDone;
      },
      settle: (response) => outcome.become(response),
    };
    if (fault !== undefined) this.#fault(fault, to, call);
    else this.#await(answer, to, call);
  }

  #resume(): void {
    const { health } = this.#layer;
    this.#stack.holder = this.#layer;
    health.resumed();
    if (this.#startedMs === undefined) return;
    // The layer continues in a microtask queued before this one, and before any other task.
    queueMicrotask(() => this.#resumedMs = health.nowMs());
    setImmediate(() => this.#resumedMs = undefined);
  }

  /** Ends the timing of an awaited answer. */
  #answered(): void {
    if (this.#resumedMs !== undefined) this.#layer.health.end(this.#resumedMs, "onRequest");
    this.#resumedMs = undefined;
  }

  #passed(response?: PluginResponse): void {
    // A layer that called `next` left the decision to others.
    if (response && !this.#inner) {
      const { failure } = response;
      const what = failure ? { kind: "refused", code: failure.code } as const : ANSWERED;
      this.#stack.context.decided?.(this.#layer, what);
    }
    if (response && isStreamOf(response.body, this.#layer)) this.#passesLater = true;
    if (!this.#passesLater) this.#layer.health.passed();
  }

  /** Continues without the layer, unless it opened the body. */
  #continue(why: string, request: PluginRequest, outcome: ResponseOutcome): void {
    if (this.#inner) {
      this.#inner.listen({ settle: (response) => this.#passUnchanged(why, response, outcome) });
    } else if (isOpen(request.body)) this.#refuse(why, outcome);
    else {
      this.#stack.chosen = this.#chosen;
      this.#stack.enter(this.#depth + 1, request, outcome);
    }
  }

  #passUnchanged(why: string, response: PluginResponse, to: ResponseTarget): void {
    if (isOpen(response.body)) this.#refuse(why, to);
    else to.settle(response);
  }

  #await(answer: Answer | undefined, to: ResponseTarget, call: PendingHookCall): void {
    const notOne = "the hook gave no response back";
    if (typeof answer !== "object" || answer === null || !("then" in answer)) {
      return this.#fault(notOne, to, call);
    }
    answer.then(
      (response) => {
        this.#answered();
        if (!(response instanceof PluginResponse)) return this.#fault(notOne, to, call);
        const fault = whyUnsendable(this.#layer, response, call.given());
        if (fault !== undefined) return this.#fault(fault, to, call);
        call.passed(response);
        to.settle(response);
      },
      (error) => {
        this.#answered();
        const broken = brokenBodyOf(error);
        if (!broken) return this.#fault(faultOf(error), to, call);
        const { code, message: reason } = broken;
        to.settle(failed({ code, reason, wasSent: true, endpoint: null }));
      },
    );
  }

  #fault(what: string, to: ResponseTarget, { hook, skip }: HookCall): void {
    if (to.isOver || this.#stack.isOver) return;
    this.#layer.health.failed(what, { hook, route: this.#stack.plan?.route.name });
    this.#stack.context.decided?.(this.#layer, FAILED);
    this.#skipOrRefuse(what, to, skip);
  }

  #skipOrRefuse(why: string, to: ResponseTarget, skip: HookCall["skip"]): void {
    if (this.#layer.mayBeSkipped) skip(why);
    else this.#refuse(why, to);
  }

  #refuse(why: string, to: ResponseTarget): void {
    to.settle(notSent("plugin_failed", `${this.#layer.name}: ${why}`));
  }
}

function isOpen(body: MessageBody | null): boolean {
  return body instanceof PassingBody && body.isOpen;
}

/** Why the body that a layer passed on cannot be sent; `undefined`: it can be. */
function whyUnsendable(
  layer: Layer,
  { body }: PluginRequest | PluginResponse,
  given: PluginRequest | PluginResponse | undefined,
): string | undefined {
  if (!(body instanceof PassingBody)) return undefined;
  if (body.isOpen) return "the body was opened, and handed on all the same";
  // A retry layer can return the response of any attempt.
  const isForeign = body !== given?.body && layer.phase !== "retry";
  return isForeign ? "the body is another message's" : undefined;
}

const CHOOSING: ReadonlySet<Phase> = new Set(["route", "filter", "retry"]);
const TARGET_KEYS = ["upstream", "service", "subset", "datacenter", "id"] as const;
const LONGEST_NAME = 255;

/** Throws a TypeError for a target that names nothing. */
function chosenBy({ name, phase }: Layer, target: Target): ChosenTarget {
  if (!CHOOSING.has(phase)) {
    throw new TypeError(`next: a plugin of phase ${phase} cannot choose a target`);
  }
  const names = typeof target === "object" && target !== null ? Object.entries(target) : [];
  const known: readonly string[] = TARGET_KEYS;
  const isTarget = names.some(([, value]) => value !== undefined) &&
    names.every(([key, value]) =>
      known.includes(key) &&
      (value === undefined || typeof value === "string" && value.length <= LONGEST_NAME)
    );
  if (isTarget) return { target, by: name };
  throw new TypeError(`next: the target has no name, or more than ${TARGET_KEYS.join(", ")}`);
}

function requestOf({ request }: Change): PluginRequest | undefined {
  if (request === undefined || request instanceof PluginRequest) return request;
  throw new TypeError("next: the request was not made by request.with()");
}
