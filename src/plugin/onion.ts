/**
 * The layers around one exchange: what each hands on goes further in, what it hands back goes further out.
 * A layer that breaks the contract is named, and stood in for as its configuration says; nothing that it
 * does is thrown from here.
 *
 * @module
 */

import { type Deadline, messageOf } from "../base/mod.ts";
import type { Answer, Change, Endpoint, Exchange, Next, Phase, Plugin, Route } from "./api.ts";
import { faultOf } from "./code_places.ts";
import { failed, PluginRequest, PluginResponse } from "./messages.ts";
import { Outcome } from "./outcome.ts";
import type { LayerStanding } from "./standing.ts";

/** One hook at its place. */
export interface Layer {
  readonly name: string;
  readonly phase: Phase;
  readonly onRequest: NonNullable<Plugin["onRequest"]>;
  /** Of its plugin, for the route that it is on. */
  readonly routeConfig: unknown;
  /** Never of a guard. */
  readonly mayBeSkipped: boolean;
  readonly standing: LayerStanding;
}

/** Where a request that no guard answered goes: a route, and the layers on it. */
export interface RoutePlan {
  readonly route: Route;
  readonly layers: readonly Layer[];
}

/** What is around the layers. */
export interface Surroundings {
  readonly exchange: Exchange;
  readonly guards: readonly Layer[];
  /** `undefined`: no route takes it. */
  planOf(request: PluginRequest): RoutePlan | undefined;
  /** To an endpoint; more than once where a layer tries again, and then what was before is given up. */
  sendOn(request: PluginRequest, to: Sending): void;
  /** Settles `outcome` with a failure where it is not, so long after the request was complete. */
  limit(outcome: Outcome, timeoutMs: number): Deadline;
  /** See {@link Change.idleTimeoutMs}. */
  idleTimeoutMs: number | undefined;
}

export interface Sending {
  readonly plan: RoutePlan;
  /** Endpoints to be passed over where there are others. */
  readonly avoid: readonly Endpoint[];
  readonly outcome: Outcome;
}

const NOBODY: readonly Endpoint[] = [];
const NO_CHANGE: Change = {};

/** What a layer was asked for. */
interface Asked {
  readonly hook: "onRequest" | "response";
  /** Where it fails and may be skipped. */
  readonly instead: () => void;
}

export class Onion {
  readonly #around: Surroundings;
  #plan: RoutePlan | undefined;
  #avoid = NOBODY;
  /** The layer that was called last and has neither gone on nor answered. */
  #holder: Layer | undefined;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** The layer that everybody waits for; `undefined`: it is an endpoint. */
  get holder(): Layer | undefined {
    return this.#holder;
  }

  /** What becomes of the request, now or later. */
  run(request: PluginRequest): Outcome {
    const outcome = new Outcome();
    this.#enter(0, request, outcome);
    return outcome;
  }

  #enter(depth: number, request: PluginRequest, outcome: Outcome): void {
    const { guards } = this.#around;
    const guard = guards[depth];
    if (guard) return this.#call(guard, depth, request, outcome);
    let plan: RoutePlan | undefined;
    try {
      plan = this.#plan ??= this.#around.planOf(request);
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
    if (layer) return this.#call(layer, depth, request, outcome);
    this.#holder = undefined;
    this.#around.sendOn(request, { plan, avoid: this.#avoid, outcome });
  }

  #call(layer: Layer, depth: number, request: PluginRequest, outcome: Outcome): void {
    const { standing } = layer;
    if (!standing.mayBeAsked()) {
      return this.#instead(layer, standing.whyBroken, outcome, () => {
        this.#enter(depth + 1, request, outcome);
      });
    }
    const startedMs = standing.begin();
    let elsewhereMs = 0;
    let inner: Outcome | undefined;
    /** It is done when it has changed the response. */
    let changesResponse = false;
    const next: Next = (change) => {
      if (outcome.isOver) throw new TypeError("next was called after an answer was given");
      if (inner && layer.phase !== "retry") throw new TypeError("next was called twice");
      const changed = requestOf(change) ?? request;
      const own = inner = new Outcome(outcome);
      if (change?.avoid && layer.phase === "retry") this.#avoid = change.avoid;
      if (change?.idleTimeoutMs !== undefined) this.#around.idleTimeoutMs = change.idleTimeoutMs;
      const { response: map, timeoutMs } = change ?? NO_CHANGE;
      const leftMs = startedMs === undefined ? 0 : standing.nowMs();
      if (map === undefined && !timeoutMs) {
        this.#enter(depth + 1, changed, own);
      } else {
        changesResponse ||= map !== undefined;
        const raw = new Outcome(own);
        const limit = timeoutMs ? this.#around.limit(raw, timeoutMs) : undefined;
        raw.tell((response) => {
          limit?.cancel();
          if (map) this.#map(layer, map, response, own);
          else own.settle(response);
        });
        this.#enter(depth + 1, changed, raw);
      }
      if (startedMs !== undefined) elsewhereMs += standing.nowMs() - leftMs;
      return own.value ?? own;
    };
    this.#holder = layer;
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      const route = this.#plan?.route;
      const args = {
        request,
        exchange: this.#around.exchange,
        route,
        routeConfig: layer.routeConfig,
      };
      answer = layer.onRequest(args, next);
    } catch (error) {
      fault = faultOf(error);
    }
    if (startedMs !== undefined) standing.end(startedMs, "onRequest", elsewhereMs);
    const goOn = () => this.#goOn(depth, request, inner, outcome);
    if (fault !== undefined) {
      return this.#fault(layer, fault, outcome, { hook: "onRequest", instead: goOn });
    }
    const passed = () => {
      if (!changesResponse) standing.passed();
    };
    // A layer that waits for nothing has told by now.
    if (answer instanceof PluginResponse) {
      passed();
      return outcome.settle(answer);
    }
    if (answer === inner && inner) {
      passed();
      return inner.tell((response) => outcome.settle(response));
    }
    // It is waited for from now on, or once what it waits for has come.
    if (inner && !inner.value) inner.tell(() => this.#holder = layer);
    this.#await(layer, answer, outcome, { hook: "onRequest", passed, instead: goOn });
  }

  /** As if `layer` were not there. */
  #goOn(depth: number, request: PluginRequest, inner: Outcome | undefined, outcome: Outcome): void {
    if (inner) inner.tell((response) => outcome.settle(response));
    else this.#enter(depth + 1, request, outcome);
  }

  #map(
    layer: Layer,
    map: NonNullable<Change["response"]>,
    response: PluginResponse,
    outcome: Outcome,
  ): void {
    const { standing } = layer;
    const asItWas = () => outcome.settle(response);
    const startedMs = standing.begin();
    let answer: Answer | undefined;
    let fault: string | undefined;
    try {
      answer = map(response);
    } catch (error) {
      fault = faultOf(error);
    }
    if (startedMs !== undefined) standing.end(startedMs, "response");
    if (fault !== undefined) {
      return this.#fault(layer, fault, outcome, { hook: "response", instead: asItWas });
    }
    const passed = () => standing.passed();
    if (answer instanceof PluginResponse) {
      passed();
      outcome.settle(answer);
    } else this.#await(layer, answer, outcome, { hook: "response", passed, instead: asItWas });
  }

  #await(
    layer: Layer,
    answer: Answer | undefined,
    outcome: Outcome,
    asked: Asked & {
      readonly passed: () => void;
    },
  ): void {
    if (typeof answer !== "object" || answer === null || !("then" in answer)) {
      return this.#fault(layer, "the hook gave no response back", outcome, asked);
    }
    answer.then(
      (response) => {
        if (response instanceof PluginResponse) {
          asked.passed();
          outcome.settle(response);
        } else this.#fault(layer, "the hook gave no response back", outcome, asked);
      },
      (error) => this.#fault(layer, faultOf(error), outcome, asked),
    );
  }

  #fault(layer: Layer, what: string, outcome: Outcome, { hook, instead }: Asked): void {
    if (outcome.isOver) return;
    layer.standing.failed(what, { hook, route: this.#plan?.route.name });
    this.#instead(layer, what, outcome, instead);
  }

  #instead(layer: Layer, why: string, outcome: Outcome, instead: () => void): void {
    if (layer.mayBeSkipped) return instead();
    outcome.settle(
      failed({ ...NOT_SENT, code: "plugin_failed", reason: `${layer.name}: ${why}` }),
    );
  }
}

const NOT_SENT = { wasSent: false, endpoint: null } as const;

function requestOf(change: Change | undefined): PluginRequest | undefined {
  const request = change?.request;
  if (request === undefined || request instanceof PluginRequest) return request;
  throw new TypeError("next: the request was not made by request.with()");
}
