/**
 * A setting of `postern dataplane`: a flag that may stand in a configuration file, too.
 *
 * @module
 */

import type { FlagGroup, FlagSpec } from "../command_line/args_flags.ts";

export interface Setting extends FlagSpec {
  /** With dots: `consul.tls.disabled`. Absent: it cannot stand in a file. */
  readonly key?: string;
  /** As who writes such files for others has it. */
  readonly otherKey?: string;
  /** What the file has for it; default: what its flag is, a text or a switch. */
  readonly inFile?: "number" | "duration" | "map";
}

export interface SettingGroup extends FlagGroup {
  readonly flags: readonly Setting[];
}
