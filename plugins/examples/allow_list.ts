/**
 * Example: admits only callers whose SPIFFE IDs are in a file, one a line, and applies changes of the file
 * within seconds. If the file cannot be read, the list before stays; without a first list the plugin does
 * not start.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import * as v from "valibot";
import type { Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const MAX_ENTRIES = 10_000;
const Config = v.strictObject({
  file: v.string(),
  everySeconds: v.optional(v.pipe(v.number(), v.minValue(1)), 2),
});

export default {
  name: "allow_list",
  api: 1,
  phase: "guard",
  config: Config,
  async create(host, { file, everySeconds }): Promise<Plugin> {
    const refused = host.stats.counter("refused", {
      help: "Requests of callers that are not on the list",
    });
    let text = await readFile(file, "utf8");
    let allowed = idsOf(text);
    host.spawn("watch", async (signal) => {
      while (!signal.aborted) {
        await host.clock.sleep(everySeconds * 1_000, signal);
        const now = await readFile(file, "utf8");
        if (now === text) continue;
        allowed = idsOf(now);
        text = now;
        host.log.info("allow-list changed", { entries: allowed.size });
      }
    });
    return {
      onRequest({ exchange: { connection: { source } } }, next) {
        if (source && allowed.has(source.uri)) return next();
        refused.add(1);
        return host.refuse("denied", `${source?.uri ?? "nobody"} is not on the allow-list`);
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

function idsOf(text: string): ReadonlySet<string> {
  const lines = text.split("\n").map((line) => line.trim());
  const ids = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const odd = ids.find((id) => !id.startsWith("spiffe://"));
  if (odd !== undefined) throw new Error(`allow-list: ${JSON.stringify(odd)} is no SPIFFE ID`);
  if (ids.length > MAX_ENTRIES) throw new Error(`allow-list: more than ${MAX_ENTRIES} entries`);
  return new Set(ids);
}
