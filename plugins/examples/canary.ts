/**
 * Example: sends a share of the users to another subset of an upstream. A user who was sent there stays there
 * while the share grows. It belongs into the list of an upstream.
 *
 * @module
 */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Config = v.strictObject({
  /** Header that names the user. */
  by: v.optional(v.string(), "x-user"),
  percent: v.pipe(v.number(), v.minValue(0), v.maxValue(100)),
  /** Its split in the service-splitter may have the weight 0. */
  subset: v.string(),
});

export default {
  name: "canary",
  api: 1,
  phase: "filter",
  config: Config,
  create(host, { by, percent, subset }): Plugin {
    const sent = host.stats.counter("sent", { help: "Requests sent to the subset" });
    const target = { target: { subset } };
    return {
      onRequest({ request }, next) {
        const user = request.headers.get(by);
        if (user === undefined || placeOf(user) >= percent) return next();
        sent.add(1);
        return next(target);
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/** A number from 0 up to 100, always the same for a text: FNV-1a, mixed once more. */
function placeOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash ^= hash >>> 13;
  return (hash >>> 0) / 2 ** 32 * 100;
}
