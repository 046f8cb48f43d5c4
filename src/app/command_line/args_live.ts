/** The command lines of the commands that show running sidecars. @module */

import type { StatusOptions } from "../commands/live/run_status.ts";
import type { AdminAddress } from "../../admin/mod.ts";
import type { DoctorOptions } from "../commands/doctor/run_doctor.ts";
import { readProxyOptions } from "../flags/proxy_options.ts";
import { type FlagValues, usage } from "../flags/parse_flags.ts";
import { readTcpAddresses } from "../flags/read_values.ts";
import type { WhichSidecars } from "../process/find_admin.ts";

export function readStatus(flags: FlagValues): StatusOptions {
  return { which: readSidecars(flags), json: flags.on("json"), noColor: flags.on("no-color") };
}

/** Flags that say which proxy is meant, beside those of {@link readSidecars}. */
const MODES = ["sidecar-for", "proxy-id", "gateway", "config", "service"] as const;

/** `parse`: reads the words as `postern doctor` does. */
export function readDoctor(
  argv: readonly string[],
  parse: (argv: readonly string[]) => FlagValues,
): DoctorOptions {
  const flags = parse(argv);
  const given = MODES.filter((name) => flags.text(name) !== undefined);
  const admins = readAdmins(flags);
  const [first] = MODES.filter((name) => flags.given(name));
  if (first && admins.length > 0) {
    throw usage(`Cannot use -${first} with -admin: give one of them`);
  }
  if (admins.length > 1) throw usage("Cannot use several -admin here: doctor looks at one proxy");
  return {
    proxy: given.length > 0 && admins.length === 0 ? readProxyOptions(flags) : undefined,
    running: admins.length > 0 ? { kind: "addresses", admins } : { kind: "all" },
    read: (more) => readProxyOptions(parse([...more, ...argv])),
    json: flags.on("json"),
    noColor: flags.on("no-color"),
  };
}

/** All of this machine, where no flag chooses. */
export function readSidecars(flags: FlagValues): WhichSidecars {
  const admins = readAdmins(flags);
  const wanted = (["sidecar-for", "proxy-id", "config"] as const)
    .flatMap((flag) => flags.list(flag).map((value) => ({ flag, value })));
  const [first] = wanted;
  if (first && admins.length > 0) {
    throw usage(`Cannot use -${first.flag} with -admin: give one of them`);
  }
  if (first) return { kind: "proxies", wanted };
  return admins.length > 0 ? { kind: "addresses", admins } : { kind: "all" };
}

function readAdmins(flags: FlagValues): readonly AdminAddress[] {
  return readTcpAddresses(flags, "admin");
}
