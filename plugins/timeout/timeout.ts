/**
 * The response timeout and the idle timeout of exchanges, for a listener and for each of its routes.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

/** 0: no timeout, even if a layer further out sets one; like a negative value in Consul. */
const Milliseconds = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2 ** 31 - 1));
const Config = v.strictObject({
  requestTimeoutMs: v.optional(Milliseconds),
  idleTimeoutMs: v.optional(Milliseconds),
});
type Config = v.InferOutput<typeof Config>;

export default {
  name: "timeout",
  api: 1,
  phase: "filter",
  config: Config,
  routeConfig: Config,
  create(_host, config): Plugin<Config> {
    return {
      onRequest({ routeConfig }, next) {
        const timeoutMs = routeConfig?.requestTimeoutMs ?? config.requestTimeoutMs;
        const idleTimeoutMs = routeConfig?.idleTimeoutMs ?? config.idleTimeoutMs;
        return next({
          ...(timeoutMs !== undefined && { timeoutMs }),
          ...(idleTimeoutMs !== undefined && { idleTimeoutMs }),
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof Config>;
