/**
 * Example: sends the application a header with the features that are on for the user. A share of all users
 * has a feature, and a user who has it keeps it while the share grows.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Percent = v.pipe(v.number(), v.minValue(0), v.maxValue(100));
const Config = v.strictObject({
  /** Header that names the user. */
  by: v.optional(v.string(), "x-user"),
  /** The percentage of users that have each feature. */
  features: v.record(v.pipe(v.string(), v.regex(/^[\w-]+$/, "is no name of a feature")), Percent),
});

const HEADER = "x-features";

export default {
  name: "feature_flag",
  api: 1,
  phase: "filter",
  config: Config,
  create(_host, { by, features }): Plugin {
    const all = Object.entries(features);
    return {
      onRequest({ request }, next) {
        const user = request.headers.get(by);
        const on = user === undefined
          ? []
          : all.filter(([name, percent]) => placeOf(`${name}/${user}`) < percent);
        // The caller cannot set the header itself.
        const headers = on.length === 0
          ? { remove: [HEADER] }
          : { set: { [HEADER]: on.map(([name]) => name).join(",") } };
        return next({ request: request.with({ headers }) });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/**
 * A number from 0 up to 100, always the same for a text. FNV-1a, mixed once more: without that, texts that
 * begin alike lie close together.
 */
function placeOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash ^= hash >>> 13;
  return (hash >>> 0) / 2 ** 32 * 100;
}
