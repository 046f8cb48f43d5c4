/**
 * Has the tokens of one request verified before it is judged. Nobody is turned away here: what was verified
 * is known to the judge, and what nobody verified is no token.
 *
 * @module
 */

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

/** Whoever has keys to fetch has less time for it. */
const LIMIT_MS = 10_000;
/** They end where the request is judged. */
const PLAN: RoutePlan = {
  route: { name: DEFAULT_ROUTE, service: "", match: null },
  resolver: undefined,
  layers: [],
};

export interface TokenCheckOptions {
  readonly generation: Generation;
  readonly exchange: ExchangeValue;
  readonly deadlines: Pick<Deadlines, "after">;
  /** With the request as it is judged and sent on; `undefined`: that could not be found out. */
  readonly onKnown: (request: RequestHead | undefined) => void;
}

export class TokenCheck implements LayerContext {
  readonly guards: readonly Layer[];
  readonly exchange: ExchangeValue;
  idleTimeoutMs: number | undefined;
  readonly #options: TokenCheckOptions;
  #deadline: Deadline | undefined;
  #isOver = false;

  constructor(options: TokenCheckOptions) {
    this.#options = options;
    this.exchange = options.exchange;
    this.guards = options.generation.guards;
    options.generation.enter();
  }

  /** May tell at once. */
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

  /** Nobody wants to know any more. */
  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#deadline?.cancel();
    this.#options.generation.leave();
  }

  #end(request: RequestHead | undefined): void {
    if (this.#isOver) return;
    this.leave();
    this.#options.onKnown(request);
  }
}
