/** Version, commit and engine of this program. @module */

import process from "node:process";
import type { ServerInfo } from "../../admin/mod.ts";
import project from "../../../deno.json" with { type: "json" };

/** Put in place by `scripts/compile.ts`; does not exist when running from source. */
declare const POSTERN_COMMIT: string | undefined;

const commit: string | undefined = typeof POSTERN_COMMIT === "string" ? POSTERN_COMMIT : undefined;

export const VERSION: string = project.version;

/** This is the executable, not the project's source. */
export const IS_COMPILED: boolean = commit !== undefined;

/** `engine`: the engine that carries the traffic, as `src/net` names it: `bun 1.4.5`. */
export function versionInfo(
  engine: string,
): Pick<ServerInfo, "version" | "commit" | "engine" | "platform"> {
  const platform = `${process.platform} ${process.arch}`;
  return { version: VERSION, commit: commit ?? "source", engine, platform };
}

/** `postern 0.1.0 (commit abc1234, bun 1.4.5, linux x64)`. */
export function versionLine(engineName: string): string {
  const { version, commit, engine, platform } = versionInfo(engineName);
  const from = commit === "source" ? "from source" : `commit ${commit}`;
  return `postern ${version} (${from}, ${engine}, ${platform})`;
}
