/** The tables of `docs/from-envoy.md`, made of the tables that flags, keys, paths and metrics come from. @module */

import { ENVOY_HELP } from "../src/admin/envoy/envoy_names.ts";
import { PATHS } from "../src/admin/home.ts";
import { REFUSED_ENVOY_FLAGS, TAKEN_ENVOY_FLAGS } from "../src/app/command_line/args_envoy.ts";
import { CONFIG_KEYS, type ConfigKey } from "../src/consul/mod.ts";

export const FATES: Readonly<Record<ConfigKey["fate"]["kind"], string>> = {
  followed: "followed",
  moot: "no effect on a proxy",
  ignored: "**ignored**, named in the log",
  refused: "**refused**",
};

/** Paths of Envoy's admin server without a page of that name here, and what has the same facts. */
const OTHER_PATHS: Readonly<Record<string, string>> = {
  "/contention": "there are no locks to trace",
  "/cpuprofiler": "profile the process with `perf`",
  "/heapprofiler": "`process_*` of `/stats/prometheus` has the memory",
  "/healthcheck/fail": "`POST /drain_listeners`",
  "/healthcheck/ok": "start the proxy again",
  "/hot_restart_version": "none: a new process takes over the listening sockets",
  "/init_dump": "`/ready` names what is waited for",
  "/memory": "`process_*` of `/stats/prometheus`",
  "/reopen_logs": "SIGHUP",
  "/runtime": "there are no runtime keys; flags and keys of Consul take their place",
  "/runtime_modify": "there are no runtime keys",
  "/stats/recentlookups": "none",
  "/tap": "`/explain` for one request",
};
const ENVOY_PATHS = [
  "/",
  "/certs",
  "/clusters",
  "/config_dump",
  "/drain_listeners",
  "/listeners",
  "/logging",
  "/quitquitquit",
  "/ready",
  "/reset_counters",
  "/server_info",
  "/stats",
  "/stats/prometheus",
  ...Object.keys(OTHER_PATHS),
].sort();

export function fromEnvoyTables(): string {
  return [
    "## Flags of `consul connect envoy`\n",
    "Flags that `postern proxy` has mean the same. The others:\n",
    table(["flag", "Postern", ""], [
      ...flagRows(TAKEN_ENVOY_FLAGS, "**no effect**, named in the log"),
      ...flagRows(REFUSED_ENVOY_FLAGS, "**refused**"),
    ]),
    "## Keys `envoy_*`\n",
    "In `proxy-defaults`, `service-defaults`, `Proxy.Config` of a registration and `Config` of an",
    "upstream. [Configuration keys](configuration-keys.md) has all other keys.\n",
    table(["key", "of", "Postern", ""], keyRows()),
    "## Paths of the admin server\n",
    table(["Envoy", "Postern", ""], ENVOY_PATHS.map(pathRow)),
    "## Metrics\n",
    "`/stats/prometheus` has these of Envoy's names, with Envoy's labels; `/stats` has the same",
    "under Envoy's dotted names. Metrics of Envoy that are not listed have no counterpart.\n",
    table(["metric", ""], metricRows()),
  ].join("\n");
}

type Flags = readonly {
  readonly flags: readonly { readonly name: string; readonly help: string }[];
}[];

function flagRows(groups: Flags, fate: string): readonly (readonly string[])[] {
  return groups.flatMap(({ flags }) => flags).map(({ name, help }) => [`\`-${name}\``, fate, help]);
}

function keyRows(): readonly (readonly string[])[] {
  const places = { proxy: "a sidecar", gateway: "an ingress gateway", upstream: "an upstream" };
  return CONFIG_KEYS.filter(({ key }) => key.startsWith("envoy_")).map(({ place, key, fate }) => {
    const why = fate.kind === "followed" ? fate.note ?? "" : fate.reason;
    const of = Object.entries(places).find(([name]) => name === place)?.[1] ?? place;
    return [`\`${key}\``, of, FATES[fate.kind], why];
  });
}

function pathRow(path: string): readonly string[] {
  const own = PATHS.find(([name]) => name === path);
  if (path === "/") return ["`/`", "the same path", "the state of the proxy, as a page"];
  if (own) return [`\`${path}\``, "the same path", own[1].replaceAll("|", "\\|")];
  const instead = OTHER_PATHS[path];
  if (instead === undefined) throw new Error(`Cannot say what became of ${path}: add a row`);
  return [`\`${path}\``, "none", instead];
}

function metricRows(): readonly (readonly string[])[] {
  return Object.entries(ENVOY_HELP).sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, help]) => [`\`envoy_${name}\``, help]);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("");
}
