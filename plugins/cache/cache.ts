/**
 * Stores responses in memory and answers with them while they are fresh (RFC 9111), as a shared cache. Only
 * responses whose application gave them a lifetime are stored. Each worker has a store of its own.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";
import { ResponseCache } from "./response_cache.ts";

const MIB = 1_048_576;
const Bytes = (most: number) =>
  v.pipe(v.number(), v.integer(), v.minValue(1_024), v.maxValue(most));
const Config = v.pipe(
  v.strictObject({
    limitBytes: v.optional(Bytes(1_024 * MIB), 16 * MIB),
    responseLimitBytes: v.optional(Bytes(16 * MIB), MIB),
  }),
  v.check(
    ({ limitBytes, responseLimitBytes }) => responseLimitBytes <= limitBytes / 2,
    "responseLimitBytes is more than half of limitBytes",
  ),
);

export default {
  name: "cache",
  api: 1,
  phase: "filter",
  config: Config,
  create(host, limits): Plugin {
    const cache = new ResponseCache(host, limits);
    return {
      onRequest: (args, next) => cache.answer(args, next),
      close: () => cache.close(),
    };
  },
} satisfies PluginDefinition<typeof Config>;
