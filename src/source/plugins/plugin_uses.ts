/**
 * Lists of plugins as configuration has them: `[{ "use": "header_rules", "config": {} }]`, or with
 * `"use": "./shop_rules.ts", "sha256": "..."`. The plugin checks its configuration when it is loaded.
 * @module
 */

import * as v from "valibot";
import { object, text } from "../../base/schema.ts";
import type { PluginFile, PluginUse } from "../../snapshot/mod.ts";

const MAX_PLUGINS = 64;
const OF_A_FILE = 'belongs to a plugin from a file, whose "use" has a slash or ends in .ts or .js';

/** Plugins of a listener. */
export const PLUGINS = v.optional(v.pipe(
  v.array(v.pipe(
    object({
      use: text(),
      sha256: v.optional(v.pipe(
        text(),
        v.toLowerCase(),
        v.regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits"),
      )),
      allow: v.optional(v.array(
        v.pipe(text(), v.regex(/^node:[a-z0-9_/]+$/, 'must be a module of Node\'s: "node:crypto"')),
      )),
      config: v.optional(v.unknown(), {}),
      onFailure: v.optional(
        v.picklist(["refuse", "skip"], 'must be "refuse" or "skip"'),
        "refuse",
      ),
    }),
    v.forward(v.check(({ use, sha256 }) => sha256 === undefined || isFile(use), OF_A_FILE), [
      "sha256",
    ]),
    v.forward(v.check(({ use, allow }) => allow === undefined || isFile(use), OF_A_FILE), [
      "allow",
    ]),
  )),
  v.maxLength(MAX_PLUGINS, `has more than ${MAX_PLUGINS} entries`),
));

type Entry = NonNullable<v.InferOutput<typeof PLUGINS>>[number];
/** Plugins from files have `file` once it was read. */
export type PluginList = readonly (Entry & { readonly file?: PluginFile })[] | undefined;

/** Is it a path, and not the name of a plugin inside the executable? */
export function isFile(use: string): boolean {
  return use.includes("/") || /\.[jt]s$/.test(use);
}

/** `at`: path of the list in the configuration. */
export function pluginUses(list: PluginList, at: string): readonly PluginUse[] {
  return (list ?? []).map(({ use, file, config, onFailure }, index) => ({
    plugin: use,
    ...(file && { file }),
    config,
    onFailure,
    at: `${at}[${index}]`,
  }));
}
