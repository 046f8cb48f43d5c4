/**
 * Lists of plugins as configuration has them: `[{ "use": "header_rules", "config": {} }]`. What a plugin's
 * configuration may be is for the plugin to say, when it is loaded.
 *
 * @module
 */

import * as v from "valibot";
import { object, text } from "../secrets/mod.ts";
import type { PluginUse } from "../snapshot/mod.ts";

const MAX_PLUGINS = 64;

/** Of a listener. */
export const PLUGINS = v.optional(v.pipe(
  v.array(object({
    use: text(),
    config: v.optional(v.unknown(), {}),
    onFailure: v.optional(
      v.picklist(["refuse", "skip"], 'must be "refuse" or "skip"'),
      "refuse",
    ),
  })),
  v.maxLength(MAX_PLUGINS, `has more than ${MAX_PLUGINS} entries`),
));

export type PluginList = v.InferOutput<typeof PLUGINS>;

/** `at`: where the list stands. */
export function pluginUses(list: PluginList, at: string): readonly PluginUse[] {
  return (list ?? []).map(({ use, config, onFailure }, index) => ({
    plugin: use,
    config,
    onFailure,
    at: `${at}[${index}]`,
  }));
}
