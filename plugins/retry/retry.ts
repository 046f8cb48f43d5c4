/**
 * Retries a failed request, on another endpoint if there is one: configured as in Consul's service-router,
 * with the semantics of Envoy.
 *
 * @module
 */

import * as v from "valibot";
import type {
  Answer,
  Endpoint,
  Host,
  HttpResponse,
  Next,
  Plugin,
  PluginDefinition,
  RequestArgs,
} from "../../src/plugin/api.ts";
import { Budget, UsedUp } from "./budget.ts";
import { asksForAnother, POLICY, policyOf, type RetryPolicy } from "./policy.ts";

const Milliseconds = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(60_000));
const Bytes = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(16 * 1024 * 1024));

const Config = v.strictObject({
  ...POLICY,
  backOff: v.optional(v.strictObject({ baseMs: Milliseconds, maxMs: v.optional(Milliseconds) })),
  budget: v.optional(v.strictObject({
    percent: v.pipe(v.number(), v.minValue(0), v.maxValue(100)),
    minimum: v.pipe(v.number(), v.integer(), v.minValue(0)),
  })),
  replayLimitBytes: v.optional(Bytes),
});
const RouteConfig = v.pipe(
  v.strictObject(POLICY),
  v.transform((given) => ({ policy: policyOf(given) })),
);
type RouteConfig = v.InferOutput<typeof RouteConfig>;

const BASE_MS = 25;
const MAX_OF_BASE = 10;
const BUDGET = { percent: 20, minimum: 3 };
const REPLAY_LIMIT_BYTES = 64 * 1024;

export default {
  name: "retry",
  api: 1,
  phase: "retry",
  config: Config,
  routeConfig: RouteConfig,
  create(host, config): Plugin<RouteConfig> {
    const { backOff, budget = BUDGET, replayLimitBytes = REPLAY_LIMIT_BYTES } = config;
    const baseMs = backOff?.baseMs ?? BASE_MS;
    const maxMs = backOff?.maxMs ?? baseMs * MAX_OF_BASE;
    const own = policyOf(config);
    const context: RetryContext = {
      host,
      counts: countsOf(host),
      budget: new Budget(budget),
      usedUp: new UsedUp(host),
      pauseMs: (before) => host.random() * Math.min(maxMs, baseMs * 2 ** before),
    };
    return {
      onRequest(args, next) {
        const policy = args.routeConfig ? args.routeConfig.policy : own;
        // An upgraded connection cannot be replayed.
        if (!policy || args.request.upgrade !== "") return next();
        args.request.body?.keep(replayLimitBytes);
        return new Attempts(context, policy, { args, next }).begin();
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof RouteConfig>;

/** Shared by all requests. */
interface RetryContext {
  readonly host: Host;
  readonly counts: ReturnType<typeof countsOf>;
  readonly budget: Budget;
  readonly usedUp: UsedUp;
  /** The pause before a retry that follows `before` others. */
  readonly pauseMs: (before: number) => number;
}

/** Counters with Envoy's names, so that dashboards still work. */
function countsOf({ stats }: Host) {
  const counter = (name: string, help: string) => stats.counter(name, { help });
  return {
    retry: counter(
      "upstream_rq_retry",
      "Requests sent again after a failed attempt; each attempt counts",
    ),
    success: counter("upstream_rq_retry_success", "Attempts after the first that succeeded"),
    limited: counter(
      "upstream_rq_retry_limit_exceeded",
      "Requests whose last permitted attempt failed",
    ),
    overflow: counter(
      "upstream_rq_retry_overflow",
      "Requests not retried because the retry budget was used up",
    ),
    unkept: counter(
      "retry_or_shadow_abandoned",
      "Requests not retried because their body was not kept",
    ),
    timedOut: counter(
      "upstream_rq_per_try_timeout",
      "Attempts that were not answered within the per-try timeout",
    ),
  };
}

/** The attempts of one request, until the response of one is final. */
class Attempts {
  readonly #context: RetryContext;
  readonly #policy: RetryPolicy;
  readonly #args: RequestArgs;
  readonly #next: Next;
  readonly #failed: Endpoint[] = [];
  #retries = 0;
  /** The current attempt is a retry, counted in the budget. */
  #isRetry = false;

  constructor(context: RetryContext, policy: RetryPolicy, { args, next }: {
    readonly args: RequestArgs;
    readonly next: Next;
  }) {
    this.#context = context;
    this.#policy = policy;
    this.#args = args;
    this.#next = next;
  }

  begin(): Answer {
    const { budget } = this.#context;
    budget.requestBegins();
    this.#args.exchange.onEnd(() => {
      this.#retryEnds();
      budget.requestEnds();
    });
    return this.#send();
  }

  #retryEnds(): void {
    if (this.#isRetry) this.#context.budget.giveBack();
    this.#isRetry = false;
  }

  /** Sends an attempt; no promise is made if the first one succeeds. */
  #send(): Answer {
    const { perTryTimeoutMs: timeoutMs } = this.#policy;
    return this.#next({
      response: (response) => this.#judge(response),
      ...(timeoutMs > 0 && { timeoutMs }),
      ...(this.#retries > 0 && { avoid: this.#failed }),
    });
  }

  #judge(response: HttpResponse): Answer {
    const { counts, budget, usedUp } = this.#context;
    const { body } = this.#args.request;
    this.#retryEnds();
    if (response.failure?.code === "response_timed_out") counts.timedOut.add(1);
    if (!asksForAnother(this.#policy, response)) {
      if (this.#retries > 0 && !response.failure) counts.success.add(1);
      return response;
    }
    if (this.#retries >= this.#policy.numRetries) counts.limited.add(1);
    else if (body && !body.isReplayable) counts.unkept.add(1);
    else if (!budget.take()) {
      counts.overflow.add(1);
      usedUp.refused();
    } else {
      this.#isRetry = true;
      return this.#again(response);
    }
    return response;
  }

  async #again(response: HttpResponse): Promise<HttpResponse> {
    const { host: { clock }, counts, pauseMs } = this.#context;
    const { signal } = this.#args.exchange;
    const failed = response.endpoint ?? response.failure?.endpoint;
    if (failed) this.#failed.push(failed);
    await clock.sleep(pauseMs(this.#retries++), signal);
    if (signal.aborted) return response;
    counts.retry.add(1);
    return this.#send();
  }
}
