/** Verifies the tokens of a request before it is judged; refusing is left to the judge. @module */

import type { Deadline, Deadlines } from "../../base/mod.ts";
import type { RequestHead } from "../../http/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import {
  type Generation,
  type Layer,
  type LayerContext,
  LayerStack,
  PluginRequest,
  type RoutePlan,
} from "../../plugin/mod.ts";
import type { ExchangeValue } from "./exchange_value.ts";

/** Longer than fetching keys may take. */
const LIMIT_MS = 10_000;
/** Without layers: the request is judged after the guards. */
const PLAN: RoutePlan = {
  route: { name: DEFAULT_ROUTE, service: "", match: null },
  resolver: undefined,
  layers: [],
};

interface TokenCheckOptions {
  readonly deadlines: Pick<Deadlines, "after">;
  /** Receives the request as it is judged and sent on; `undefined`: the check failed. */
  readonly onKnown: (request: RequestHead | undefined) => void;
}

export class TokenCheck implements LayerContext {
  readonly exchange: ExchangeValue;
  idleTimeoutMs: number | undefined;
  readonly #generation: Generation;
  readonly #options: TokenCheckOptions;
  #deadline: Deadline | undefined;
  #isOver = false;

  constructor(generation: Generation, exchange: ExchangeValue, options: TokenCheckOptions) {
    this.#generation = generation;
    this.exchange = exchange;
    this.#options = options;
    generation.enter();
  }

  get guards(): readonly Layer[] {
    return this.#generation.guards;
  }

  /** May call `onKnown` at once. */
  start(request: RequestHead): void {
    const failed = () => this.#end(undefined);
    new LayerStack(this).run(new PluginRequest(request, null)).listen({ settle: failed });
    if (!this.#isOver) this.#deadline = this.#options.deadlines.after(LIMIT_MS, failed);
  }

  planOf(): RoutePlan {
    return PLAN;
  }

  sendOn({ head }: PluginRequest): void {
    this.#end(head);
  }

  limit(): Deadline {
    throw new TypeError("what verifies tokens waits for no endpoint");
  }

  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#deadline?.cancel();
    this.#generation.leave();
  }

  #end(request: RequestHead | undefined): void {
    if (this.#isOver) return;
    this.leave();
    this.#options.onKnown(request);
  }
}
