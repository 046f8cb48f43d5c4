/** The flags of `postern proxy` and `check` as one value, checked before any effect. @module */

import { type FlagValues, usage } from "./parse_flags.ts";
import { defined } from "../../base/schema.ts";
import { type Address, canonicalIpText, type LogLevel } from "../../base/mod.ts";
import type { AgentFlags, ServersFlags } from "../../consul/mod.ts";
import type { TelemetryChoice, TracingChoice } from "../../snapshot/mod.ts";
import { readTelemetry } from "./trace_options.ts";
import { readServersFlags } from "./servers_flags.ts";
import {
  badValue,
  parseUpstreams,
  readChoice,
  readDurationMs,
  readInteger,
  readLogLevel,
  readTcpAddress,
  readTcpAddresses,
  type UpstreamArgument,
} from "./read_values.ts";

type TcpAddress = Extract<Address, { kind: "tcp" }>;

export type ProxyMode =
  | { readonly kind: "agent"; readonly by: "proxy_id" | "sidecar_for"; readonly id: string }
  /** The one ingress gateway that is registered; `""`: of any name. */
  | { readonly kind: "agent"; readonly by: "gateway"; readonly id: string }
  | FlagsMode
  | { readonly kind: "config"; readonly file: string };

/** Flags alone, with identity and intentions from the agent: the built-in proxy's `-service`. */
interface FlagsMode {
  readonly kind: "flags";
  readonly service: string;
  /** The local application; absent: nothing inbound. */
  readonly serviceAddress?: Address;
  readonly listen?: TcpAddress;
  /** Sorted by name. */
  readonly upstreams: readonly UpstreamArgument[];
  readonly register: boolean;
  /** Id of the application's own entry, where there is one: `web` or `web-<suffix>`. */
  readonly applicationId: string;
  /** `""`: not given. */
  readonly nodeAddress: string;
  /** `""`: none. */
  readonly httpCheckPath: string;
  /** Id of the catalog entry: `web-proxy` or `web-proxy-<suffix>`. */
  readonly proxyId: string;
}

type AdminBindOption =
  /** 127.0.0.1:19000, or the next free port. */
  | { readonly kind: "default" }
  | { readonly kind: "address"; readonly host: string; readonly port: number }
  | { readonly kind: "off" };

export interface ProxyOptions {
  readonly mode: ProxyMode;
  /** As given; `src/consul` adds the environment. */
  readonly agentFlags: AgentFlags;
  /** Present: the proxy runs beside Consul's servers, without an agent. */
  readonly serversFlags?: ServersFlags;
  readonly agentConnections: number;
  readonly preparedQueryIntervalMs: number;
  readonly authorize: "match" | "both";
  readonly strictSpiffeChain: boolean;
  readonly stateDir?: string;
  readonly adminBind: AdminBindOption;
  readonly adminTokenFile?: string;
  /** Admin servers that the page at `/` shows; absent: those that are found on this machine. */
  readonly adminPeers?: readonly TcpAddress[];
  /** Listeners that must carry traffic: one, or all that ever did. */
  readonly ready: "any" | "all";
  /** Time for open connections after `POST /drain_listeners`. */
  readonly drainTimeoutMs: number;
  /** Time for the whole end after SIGTERM, the settle time included. */
  readonly stopTimeoutMs: number;
  /** New callers are served for this long after Consul marks the proxy as leaving. */
  readonly settleMs: number;
  /** 0: never. */
  readonly idleTimeoutMs: number;
  /** 0: for ever. */
  readonly lifetimeMs: number;
  readonly maxConnections: number;
  /** 0: in the main thread. */
  readonly workers: number;
  readonly logLevel: LogLevel;
  readonly logJson: boolean;
  /** Socket of a syslog daemon; absent or `""`: standard error. */
  readonly syslog?: string;
  /** Absent: the configuration decides alone. */
  readonly tracing?: TracingChoice;
  readonly telemetry?: TelemetryChoice;
  /** Files of plugins are read again when one of them changes. */
  readonly watchPlugins: boolean;
  /** Logged at start: flags that do nothing. */
  readonly warnings: readonly string[];
}

const FLAG_MODE_ONLY = ["service", "service-addr", "listen", "upstream", "register", "register-id"];
const AGENT_ONLY = ["agent-connections", "prepared-query-interval", "settle-time"];
/** Each is asked by three requests every few seconds. */
const MAX_ADMIN_PEERS = 32;
/** Callers hear of a changed check within half a second; on a busy host later. */
export const SETTLE_MS = 2_000;

export function readProxyOptions(flags: FlagValues): ProxyOptions {
  const warnings: string[] = [];
  const mode = readMode(flags, warnings);
  const authorize = readChoice(flags, "authorize", ["match", "both"]);
  const drainTimeoutMs = readDurationMs(flags, "drain-timeout");
  if (mode.kind === "config") {
    if (authorize === "both") {
      throw usage(
        "Cannot use -authorize both with -config: there is no agent to ask; use -authorize match",
      );
    }
    const unused = AGENT_ONLY.filter((name) => flags.given(name));
    if (unused.length > 0) warnings.push(`${dashed(unused)} does nothing with -config`);
  }
  if (flags.given("pprof-addr") || flags.given("pprof-timeout")) {
    warnings.push("no profile is served: -pprof-addr and -pprof-timeout are taken and do nothing");
  }
  for (const name of ["token", "login-bearer-token"]) {
    if (!flags.given(name)) continue;
    warnings.push(`-${name} can be read by everybody on this host: -${name}-file takes a file`);
  }
  const agentFlags = readAgentFlags(flags);
  const serversFlags = readServersFlags(flags, agentFlags, warnings);
  const { tracing, telemetry, warnings: unused } = readTelemetry(flags, flags.env);
  warnings.push(...unused);
  return defined({
    mode,
    agentFlags,
    serversFlags,
    agentConnections: readInteger(flags, "agent-connections", {
      // Registration, leaf, roots and intentions have a poll each; one more takes turns.
      atLeast: 5,
      atMost: 190,
    }),
    preparedQueryIntervalMs: readDurationMs(flags, "prepared-query-interval", { atLeastMs: 1_000 }),
    authorize,
    strictSpiffeChain: flags.on("strict-spiffe-chain"),
    stateDir: flags.text("state-dir"),
    adminBind: readAdminBind(flags),
    adminTokenFile: flags.text("admin-token-file"),
    adminPeers: readAdminPeers(flags),
    ready: readChoice(flags, "ready", ["any", "all"]),
    drainTimeoutMs,
    stopTimeoutMs: drainTimeoutMs,
    settleMs: readSettleMs(flags, drainTimeoutMs),
    idleTimeoutMs: readDurationMs(flags, "idle-timeout"),
    lifetimeMs: readDurationMs(flags, "max-connection-lifetime"),
    maxConnections: readInteger(flags, "max-connections", { atLeast: 1, atMost: 10_000_000 }),
    workers: readInteger(flags, "workers", { atLeast: 0, atMost: 256 }),
    logLevel: readLogLevel(flags),
    logJson: flags.on("log-json"),
    syslog: flags.text("syslog"),
    tracing,
    telemetry,
    watchPlugins: flags.on("watch-plugins"),
    warnings,
  });
}

/** A shorter drain shortens the default of the settle time. */
function readSettleMs(flags: FlagValues, drainTimeoutMs: number): number {
  const byDefaultMs = Math.min(SETTLE_MS, drainTimeoutMs / 4);
  const settleMs = readDurationMs(flags, "settle-time", { byDefaultMs });
  if (settleMs <= drainTimeoutMs) return settleMs;
  throw badValue(flags, "settle-time", "it is part of -drain-timeout, which is shorter");
}

/** Consul's order: `-proxy-id`, then `-sidecar-for`, then flags; `-config` goes alone. */
function readMode(flags: FlagValues, warnings: string[]): ProxyMode {
  const proxyId = flags.text("proxy-id");
  const sidecarFor = flags.text("sidecar-for");
  const file = flags.text("config");
  const flagModeGiven = FLAG_MODE_ONLY.filter((name) => flags.given(name));
  if (file !== undefined) {
    const against = ["proxy-id", "sidecar-for", "gateway", ...FLAG_MODE_ONLY].find((name) =>
      flags.given(name)
    );
    if (against !== undefined) {
      throw usage(
        `Cannot use -config with -${against}: the file says it all; leave one of them out`,
      );
    }
    for (const name of ["proxy-id", "sidecar-for"]) {
      if (flags.text(name) !== undefined) {
        warnings.push(`${flags.origin(name)} does nothing with -config`);
      }
    }
    return { kind: "config", file };
  }
  if (flags.text("gateway") !== undefined) return readGatewayMode(flags, warnings);
  const id = proxyId ?? sidecarFor;
  if (id === undefined) return readFlagsMode(flags, warnings);
  const chosen = flags.origin(proxyId === undefined ? "sidecar-for" : "proxy-id");
  if (flags.on("register")) {
    throw usage(
      `Cannot use -register with ${chosen}: that proxy is registered already; leave -register out`,
    );
  }
  if (proxyId !== undefined && sidecarFor !== undefined) {
    warnings.push(`${flags.origin("sidecar-for")} does nothing: ${chosen} counts before it`);
  }
  if (flagModeGiven.length > 0) {
    warnings.push(`${dashed(flagModeGiven)} does nothing: ${chosen} takes all from the agent`);
  }
  return { kind: "agent", by: proxyId === undefined ? "sidecar_for" : "proxy_id", id };
}

/** `connect envoy -gateway ingress`: by `-proxy-id`, by `-service`, or the only one on the agent. */
function readGatewayMode(flags: FlagValues, warnings: string[]): ProxyMode {
  const kind = flags.text("gateway");
  if (kind !== "ingress") {
    throw badValue(flags, "gateway", "only ingress gateways are there yet; want ingress");
  }
  if (flags.given("sidecar-for")) {
    throw usage("Cannot use -sidecar-for with -gateway: leave one of them out");
  }
  if (flags.on("register")) {
    throw usage(
      "Cannot use -register with -gateway: register a service of kind ingress-gateway with the " +
        "agent, and leave -register out",
    );
  }
  const proxyId = flags.text("proxy-id");
  const idle = FLAG_MODE_ONLY.filter((name) => flags.given(name))
    .filter((name) => name !== "service" || proxyId !== undefined);
  if (idle.length > 0) warnings.push(`${dashed(idle)} does nothing with -gateway`);
  return proxyId === undefined
    ? { kind: "agent", by: "gateway", id: flags.text("service") ?? "" }
    : { kind: "agent", by: "proxy_id", id: proxyId };
}

function readFlagsMode(flags: FlagValues, warnings: string[]): FlagsMode {
  const service = flags.text("service");
  if (service === undefined) {
    throw usage(
      "Cannot start: nothing says what to stand for; give -sidecar-for, -proxy-id, -config or " +
        "-service",
    );
  }
  const serviceAddress = readServiceAddress(flags);
  const listen = readTcpAddress(flags, "listen", { emptyHost: "0.0.0.0", atLeastPort: 1 });
  if (listen && !serviceAddress) {
    throw usage(
      "Cannot use -listen without -service-addr: nobody would get the connections; give both",
    );
  }
  if (serviceAddress && !listen) {
    warnings.push("-service-addr does nothing without -listen: nothing comes in");
  }
  const register = flags.on("register");
  const suffix = flags.text("register-id");
  if (register && !listen) {
    throw usage(
      "Cannot use -register without -listen: the catalog entry needs an address; give -listen",
    );
  }
  for (const name of ["node-address", "check-http"]) {
    if (flags.given(name) && !register) warnings.push(`-${name} does nothing without -register`);
  }
  if (suffix !== undefined && !register) {
    warnings.push("-register-id does nothing without -register");
  }
  const upstreams = parseUpstreams(flags.list("upstream"));
  if (!listen && upstreams.length === 0) {
    throw usage(
      `Cannot start for service "${service}": there is no listener; give -upstream, or -listen ` +
        "with -service-addr",
    );
  }
  return {
    kind: "flags",
    service,
    ...(serviceAddress && { serviceAddress }),
    ...(listen && { listen }),
    upstreams,
    register,
    applicationId: suffix === undefined ? service : `${service}-${suffix}`,
    nodeAddress: readNodeAddress(flags),
    httpCheckPath: readCheckPath(flags),
    proxyId: suffix === undefined ? `${service}-proxy` : `${service}-proxy-${suffix}`,
  };
}

function readNodeAddress(flags: FlagValues): string {
  const text = flags.text("node-address");
  if (text !== undefined && canonicalIpText(text) === undefined) {
    throw badValue(flags, "node-address", "want an IP address, without a port");
  }
  return text ?? "";
}

function readCheckPath(flags: FlagValues): string {
  const text = flags.text("check-http");
  if (text !== undefined && !/^\/[\x21-\x7e]*$/.test(text)) {
    throw badValue(flags, "check-http", "want a path such as /health");
  }
  return text ?? "";
}

function readServiceAddress(flags: FlagValues): Address | undefined {
  const text = flags.text("service-addr");
  if (text === undefined || !text.startsWith("unix://")) {
    return readTcpAddress(flags, "service-addr", { emptyHost: "127.0.0.1", atLeastPort: 1 });
  }
  const path = text.slice("unix://".length);
  // The kernel's limit for the path of a socket, without its ending zero.
  if (!path.startsWith("/") || path.length > 107) {
    throw badValue(flags, "service-addr", "want unix:// and an absolute path of at most 107 bytes");
  }
  return { kind: "unix", path };
}

function readAdminBind(flags: FlagValues): AdminBindOption {
  const text = flags.text("admin-bind");
  if (text?.toLowerCase() === "off") return { kind: "off" };
  const address = readTcpAddress(flags, "admin-bind", { atLeastPort: 0 });
  if (!address) return { kind: "default" };
  return { kind: "address", host: address.host, port: address.port };
}

function readAdminPeers(flags: FlagValues): readonly TcpAddress[] | undefined {
  const peers = readTcpAddresses(flags, "admin-peers");
  if (peers.length > MAX_ADMIN_PEERS) {
    throw badValue(flags, "admin-peers", `want at most ${MAX_ADMIN_PEERS} addresses`);
  }
  return peers.length === 0 ? undefined : peers;
}

function readAgentFlags(flags: FlagValues): AgentFlags {
  const given = (name: string) => flags.list(name).at(-1);
  const texts: AgentFlags = defined({
    httpAddr: given("http-addr"),
    token: given("token"),
    tokenFile: given("token-file"),
    caFile: given("ca-file"),
    caPath: given("ca-path"),
    clientCert: given("client-cert"),
    clientKey: given("client-key"),
    tlsServerName: given("tls-server-name"),
    datacenter: given("datacenter"),
    namespace: given("namespace"),
    partition: given("partition"),
  });
  return flags.given("stale") ? { ...texts, stale: flags.on("stale") } : texts;
}

function dashed(names: readonly string[]): string {
  return names.map((name) => `-${name}`).join(", ");
}
