/**
 * What plugins would do to a request that is never sent. Only those inside the executable that do nothing
 * but change or answer a request are asked; the others count, ask servers or wait, and are left out.
 *
 * @module
 */

import type { RequestHead } from "../http/mod.ts";
import type { Exchange, HttpResponse } from "./api.ts";
import type { PluginRequest, PluginResponse } from "./messages.ts";
import {
  type ForwardedRequest,
  type Layer,
  type LayerContext,
  LayerStack,
  type RoutePlan,
} from "./layer_stack.ts";
import type { LayerHealth } from "./plugin_health.ts";

/** By their names. `retry` and `timeout` change nothing of a request, so they need not be asked. */
export const DRY_PLUGINS: ReadonlySet<string> = new Set([
  "header_rules",
  "path_rewrite",
  "redirect",
]);

/** The plugins of a listener, as a dry run needs them. */
export interface DryLayers {
  readonly guards: readonly Layer[];
  plansOf(request: PluginRequest): readonly RoutePlan[];
  /** Whether the plugin of that name may be asked. */
  isDry(name: string): boolean;
}

/** What became of the request on one split of its route. */
export interface DryRun {
  /** Every split of the route that takes it; empty: no route does, or a plugin answered before. */
  readonly plans: readonly RoutePlan[];
  readonly plan: RoutePlan | undefined;
  /** The request as it is sent on; `undefined`: it is not. */
  readonly sent: RequestHead | undefined;
  /** In place of that, and the plugin that gave it; `undefined`: none did. */
  readonly answer: { readonly response: PluginResponse; readonly by: string } | undefined;
}

/** `split`: which of its route's splits it takes, from 0. */
export function dryRun(
  request: PluginRequest,
  { layers, exchange, split }: {
    readonly layers: DryLayers;
    readonly exchange: Exchange;
    readonly split: number;
  },
): DryRun {
  const run = new Run(layers, exchange, split);
  new LayerStack(run).run(request).tell(run);
  return run;
}

class Run implements LayerContext, DryRun {
  readonly guards: readonly Layer[];
  readonly exchange: Exchange;
  idleTimeoutMs: number | undefined;
  plans: readonly RoutePlan[] = [];
  plan: RoutePlan | undefined;
  sent: RequestHead | undefined;
  answer: DryRun["answer"];
  readonly #layers: DryLayers;
  readonly #split: number;
  #asked = "";

  constructor(layers: DryLayers, exchange: Exchange, split: number) {
    this.#layers = layers;
    this.#split = split;
    this.exchange = exchange;
    this.guards = this.#quiet(layers.guards);
  }

  planOf(request: PluginRequest): RoutePlan | undefined {
    this.plans = this.#layers.plansOf(request);
    const plan = this.plan = this.plans[this.#split];
    return plan && { ...plan, layers: this.#quiet(plan.layers) };
  }

  sendOn({ head }: PluginRequest, _to: ForwardedRequest): void {
    this.sent = head;
  }

  limit() {
    return { cancel() {} };
  }

  settle(response: PluginResponse): void {
    if (this.plan || response.failure?.code !== "route_not_found") {
      this.answer = { response, by: this.#asked };
    }
  }

  /** The same hooks, whose failures are not counted, and which are named when they are asked. */
  #quiet(layers: readonly Layer[]): Layer[] {
    return layers.filter(({ name }) => this.#layers.isDry(name)).map((layer) => ({
      ...layer,
      standing: quiet(layer.standing),
      plugin: {
        onRequest: (args, next): HttpResponse | PromiseLike<HttpResponse> => {
          this.#asked = layer.name;
          return layer.plugin.onRequest?.(args, next) ?? next();
        },
      },
    }));
  }
}

function quiet(standing: LayerHealth): LayerHealth {
  return {
    mayBeAsked: () => !standing.isBroken,
    isBroken: standing.isBroken,
    whyBroken: standing.whyBroken,
    failed() {},
    passed() {},
    begin: () => undefined,
    end() {},
    nowMs: () => standing.nowMs(),
  };
}
