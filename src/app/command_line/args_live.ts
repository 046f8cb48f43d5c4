/** The command lines of the commands that show running sidecars. @module */

import type { StatusOptions } from "../commands/live/run_status.ts";
import { type FlagValues, usage } from "../flags/parse_flags.ts";
import { readTcpAddress } from "../flags/read_values.ts";
import type { WhichSidecars } from "../process/find_admin.ts";

export function readStatus(flags: FlagValues): StatusOptions {
  return { which: readSidecars(flags), json: flags.on("json"), noColor: flags.on("no-color") };
}

/** All of this machine, where no flag chooses. */
export function readSidecars(flags: FlagValues): WhichSidecars {
  const admins = flags.list("admin").flatMap((list) => list.split(",")).flatMap((text) => {
    const one = { text: () => text, origin: () => "-admin", byDefault: () => undefined };
    return readTcpAddress(one, "admin", { emptyHost: "127.0.0.1", atLeastPort: 1 }) ?? [];
  });
  const wanted = (["sidecar-for", "proxy-id", "config"] as const)
    .flatMap((flag) => flags.list(flag).map((value) => ({ flag, value })));
  const [first] = wanted;
  if (first && admins.length > 0) {
    throw usage(`Cannot use -${first.flag} with -admin: give one of them`);
  }
  if (first) return { kind: "proxies", wanted };
  return admins.length > 0 ? { kind: "addresses", admins } : { kind: "all" };
}
