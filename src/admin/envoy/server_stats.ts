/** Envoy's statistics `server.*` that are computed; others are renamed by the table. @module */

import type { Sample } from "../../base/mod.ts";
import type { EnvoyFacts } from "./envoy_facts.ts";

/** Envoy's number of the state `DRAINING`. */
const DRAINING = 1;
/** Digits of the commit in `server.version`. */
const COMMIT_DIGITS = 6;

/** Gauges, by their name without `server.`; without samples of the process there are none. */
export function serverStats(
  samples: readonly Sample[],
  { nowMs }: Pick<EnvoyFacts, "nowMs">,
): readonly (readonly [stat: string, value: number])[] {
  const find = (name: string) => samples.find((sample) => sample.name === name);
  const [state, started, build] = [
    find("state"),
    find("process_start_time_seconds"),
    find("build_info"),
  ];
  return [
    ...state ? [["live", state.value === DRAINING ? 0 : 1] as const] : [],
    ...started ? [["uptime", Math.max(Math.floor(nowMs / 1_000 - started.value), 0)] as const] : [],
    ...build ? [["version", versionNumber(build.labels["commit"] ?? "")] as const] : [],
    ...build ? [["hot_restart_epoch", 0] as const, ["parent_connections", 0] as const] : [],
  ];
}

function versionNumber(commit: string): number {
  const digits = commit.slice(0, COMMIT_DIGITS);
  return /^[0-9a-f]{6}$/.test(digits) ? Number.parseInt(digits, 16) : 0;
}
