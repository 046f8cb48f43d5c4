/** The command lines of the commands that show running sidecars. @module */

import type { StatusOptions } from "../commands/live/run_status.ts";
import type { AdminAddress } from "../../admin/mod.ts";
import type { DoctorOptions } from "../commands/doctor/run_doctor.ts";
import { readProxyOptions } from "../flags/proxy_options.ts";
import type { TapOptions } from "../commands/live/run_tap.ts";
import { TOP_KEYS, TOP_SORTS, type TopOptions } from "../commands/live/top_options.ts";
import { isShownField } from "../../proxy/mod.ts";
import { type FlagValues, quote, usage } from "../flags/parse_flags.ts";
import {
  badValue,
  readChoice,
  readDurationMs,
  readTcpAddresses,
  textOrDefault,
} from "../flags/read_values.ts";
import type { WhichSidecars } from "../process/find_admin.ts";

export function readStatus(flags: FlagValues): StatusOptions {
  return {
    which: readSidecars(flags),
    strict: flags.on("strict"),
    quiet: flags.on("quiet"),
    json: flags.on("json"),
    noColor: flags.on("no-color"),
  };
}

export function readTop(flags: FlagValues): TopOptions {
  const by = textOrDefault(flags, "by").split(",").map((name) => {
    const found = TOP_KEYS.find((key) => key === name.trim());
    if (found === undefined) {
      throw badValue(flags, "by", `want one or more of ${TOP_KEYS.join(",")}`);
    }
    return found;
  });
  return {
    which: readSidecars(flags),
    sort: readChoice(flags, "sort", TOP_SORTS),
    by,
    intervalMs: readDurationMs(flags, "interval", { atLeastMs: 200 }),
    total: flags.on("total"),
    once: flags.on("once"),
    noColor: flags.on("no-color"),
  };
}

export function readTap(flags: FlagValues): TapOptions {
  const query = new URLSearchParams();
  for (const name of ["source", "upstream", "path"]) {
    const text = flags.text(name);
    if (text !== undefined) query.set(name, text);
  }
  const status = flags.text("status")?.toLowerCase();
  if (status !== undefined) {
    if (!/^[1-5](?:xx|\d\d)$/.test(status)) {
      throw badValue(flags, "status", "want a status such as 503, or a class such as 5xx");
    }
    query.set("status", status);
  }
  if (flags.text("slow") !== undefined) {
    query.set("slow", String(readDurationMs(flags, "slow", { atLeastMs: 0 })));
  }
  if (flags.on("denied")) query.set("denied", "");
  for (const name of flags.list("header").map((text) => text.toLowerCase())) {
    if (!isShownField(name)) {
      throw usage(`Cannot show the header ${quote(name)}: it is no name, or may hold a secret`);
    }
    query.append("header", name);
  }
  return {
    which: readSidecars(flags),
    query: query.toString(),
    json: flags.on("json"),
    noColor: flags.on("no-color"),
  };
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
