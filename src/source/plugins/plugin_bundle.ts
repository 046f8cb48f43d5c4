/**
 * A plugin as one file, which `postern plugin bundle` writes and a proxy takes where it takes a source: the
 * joined code, its source map, the modules of Node.js that it needs, and a list of the packages inside.
 *
 * @module
 */

import * as v from "valibot";
import { formatPath, object, problemOf } from "../../base/schema.ts";
import { PHASES } from "../../plugin/mod.ts";
import type { JoinedModules } from "./module_join.ts";

export const BUNDLE_EXTENSION = ".bundle";

const FORMAT = 1;
const HEX = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits"));

const BundleFile = object({
  postern: v.literal("plugin bundle"),
  format: v.literal(FORMAT),
  name: v.string(),
  api: v.number(),
  phase: v.picklist(PHASES),
  /** The digest of the sources, as `postern plugin check` prints it. */
  sources: HEX,
  /** Modules of Node.js that it imports, for `allow`. */
  needs: v.pipe(v.array(v.string()), v.readonly()),
  /** Libraries inside the executable that it imports. */
  libraries: v.pipe(v.array(v.string()), v.readonly()),
  /** The packages inside, as CycloneDX 1.5. */
  sbom: v.unknown(),
  /** As `JoinedModules` has them. */
  text: v.string(),
  map: v.string(),
});

export type PluginBundleFile = Omit<v.InferOutput<typeof BundleFile>, "postern" | "format">;

export function formatBundle(content: PluginBundleFile): string {
  return `${JSON.stringify({ postern: "plugin bundle", format: FORMAT, ...content }, null, 1)}\n`;
}

/** Throws an error that says what is wrong with the file at that path. */
export function readBundle(
  contents: string,
  path: string,
): JoinedModules & Pick<PluginBundleFile, "libraries"> {
  let json: unknown;
  try {
    json = JSON.parse(contents);
  } catch {
    throw new Error(`${path} is no bundle: write it with "postern plugin bundle"`);
  }
  const format = typeof json === "object" && json !== null && "format" in json ? json.format : 0;
  if (typeof format === "number" && format > FORMAT) {
    const fact = `has the format ${format}, and this executable reads format ${FORMAT}`;
    throw new Error(`${path} ${fact}: write it with this version of postern`);
  }
  const parsed = v.safeParse(BundleFile, json);
  if (!parsed.success) {
    const { path: at, message } = problemOf(parsed.issues[0]);
    throw new Error(`${path} is no bundle: ${formatPath(at)} ${message}`);
  }
  const { text, map, libraries, needs } = parsed.output;
  // Whatever the list says, code that requires another module is refused when it runs.
  return { text, map, libraries, outside: needs.map((name) => ({ name, by: path })) };
}
