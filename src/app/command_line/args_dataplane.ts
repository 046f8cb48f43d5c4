/**
 * The words after `postern dataplane`. What they mean together with variables and a file is found out when
 * it is run.
 *
 * @module
 */

import { DATAPLANE_FLAGS } from "../consul_dataplane/flags.ts";
import { type FlagValues, parseFlags } from "./args_flags.ts";

export interface DataplaneWords {
  readonly flags: FlagValues;
  /** What stands after `--`, for Envoy. */
  readonly forEnvoy: readonly string[];
}

/** Throws `usage` for what is not a flag of it. */
export function parseDataplane(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): DataplaneWords {
  const end = argv.indexOf("--");
  const own = end < 0 ? argv : argv.slice(0, end);
  const flags = parseFlags(own, DATAPLANE_FLAGS, { command: "postern dataplane", env });
  return { flags, forEnvoy: end < 0 ? [] : argv.slice(end + 1) };
}
