/** Computes what built-in plugins would do to a request, without sending it. @module */

import type { Deadline } from "../base/mod.ts";
import type { RequestHead } from "../http/mod.ts";
import type { Exchange, HttpResponse } from "./api.ts";
import type { PluginRequest, PluginResponse } from "./messages.ts";
import { type Layer, type LayerContext, LayerStack, type RoutePlan } from "./layer_stack.ts";
import type { LayerHealth } from "./plugin_health.ts";

/** Names of the plugins that are run. `retry` and `timeout` do not change a request. */
export const DRY_PLUGINS: ReadonlySet<string> = new Set([
  "header_rules",
  "path_rewrite",
  "redirect",
]);

export interface DryLayers {
  readonly guards: readonly Layer[];
  plansOf(request: PluginRequest): readonly RoutePlan[];
  isDry(name: string): boolean;
}

/** Runs a request on one split of the route; `split`: its index, from 0. */
export class DryRun implements LayerContext {
  readonly guards: readonly Layer[];
  readonly exchange: Exchange;
  idleTimeoutMs: number | undefined;
  /** All splits of the matched route; empty: no route matches, or a plugin answered before. */
  plans: readonly RoutePlan[] = [];
  plan: RoutePlan | undefined;
  /** The request as it would be sent; `undefined`: it would not be. */
  sent: RequestHead | undefined;
  /** The response of a plugin in place of sending, and the plugin's name; `undefined`: none answered. */
  answer: { readonly response: PluginResponse; readonly by: string } | undefined;
  readonly #layers: DryLayers;
  readonly #split: number;
  #called = "";

  constructor(request: PluginRequest, { layers, exchange, split }: {
    readonly layers: DryLayers;
    readonly exchange: Exchange;
    readonly split: number;
  }) {
    this.#layers = layers;
    this.#split = split;
    this.exchange = exchange;
    this.guards = this.#quiet(layers.guards);
    new LayerStack(this).run(request).listen(this);
  }

  planOf(request: PluginRequest): RoutePlan | undefined {
    this.plans = this.#layers.plansOf(request);
    const plan = this.plan = this.plans[this.#split];
    return plan && { ...plan, layers: this.#quiet(plan.layers) };
  }

  sendOn({ head }: PluginRequest): void {
    this.sent = head;
  }

  limit(): Deadline {
    return { cancel() {} };
  }

  settle(response: PluginResponse): void {
    if (this.plan || response.failure?.code !== "route_not_found") {
      this.answer = { response, by: this.#called };
    }
  }

  /** The same hooks; their failures are not counted, and the last one called is remembered. */
  #quiet(layers: readonly Layer[]): Layer[] {
    return layers.filter(({ name }) => this.#layers.isDry(name)).map((layer) => ({
      ...layer,
      health: quiet(layer.health),
      plugin: {
        onRequest: (args, next): HttpResponse | PromiseLike<HttpResponse> => {
          this.#called = layer.name;
          return layer.plugin.onRequest?.(args, next) ?? next();
        },
      },
    }));
  }
}

function quiet(health: LayerHealth): LayerHealth {
  const { isBroken, whyBroken } = health;
  return {
    mayBeCalled: () => !isBroken,
    isBroken,
    whyBroken,
    failed() {},
    passed() {},
    enter: () => 0,
    leave() {},
    resumed() {},
    begin: () => undefined,
    end() {},
    nowMs: () => health.nowMs(),
  };
}
