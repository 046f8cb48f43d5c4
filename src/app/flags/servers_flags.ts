/** The flags of a proxy that has no agent beside it, only Consul's servers. @module */

import { type FlagValues, usage } from "./parse_flags.ts";
import type { AgentFlags, ServersFlags } from "../../consul/mod.ts";
import { defined } from "../../base/schema.ts";
import { PROXY_FLAGS } from "./proxy_flags.ts";
import { badValue, parsePort, readPairs } from "./read_values.ts";

const SERVERS_ONLY = PROXY_FLAGS.map(({ flags }) => flags.map(({ name }) => name))
  .filter((names) => names.includes("servers")).flat().filter((name) => name !== "servers");

/** `undefined`: there is an agent. */
export function readServersFlags(
  flags: FlagValues,
  agentFlags: AgentFlags,
  warnings: string[],
): ServersFlags | undefined {
  const servers = flags.text("servers");
  if (servers === undefined) {
    const alone = SERVERS_ONLY.find((name) => flags.given(name));
    if (alone === undefined) return undefined;
    throw usage(`Cannot use -${alone} without -servers: it is about Consul's servers; give both`);
  }
  refuseAgentsOwn(flags, warnings);
  const node = flags.text("node");
  if (node === undefined) {
    throw usage(
      "Cannot use -servers without -node: servers keep registrations by node; give the name of " +
        "the one that the proxy is registered on",
    );
  }
  const { httpAddr: _agent, stale: _always, ...shared } = agentFlags;
  return defined({
    ...shared,
    servers,
    node,
    grpcPort: readPort(flags, "grpc-port"),
    httpPort: readPort(flags, "http-port"),
    tlsDisabled: flags.on("tls-disabled"),
    serverWatchDisabled: flags.on("server-watch-disabled"),
    login: readLogin(flags, warnings),
  });
}

function refuseAgentsOwn(flags: FlagValues, warnings: string[]): void {
  for (const name of ["config", "http-addr"]) {
    if (!flags.given(name)) continue;
    throw usage(`Cannot use -servers with -${name}: give the one that the proxy is to ask`);
  }
  if (flags.text("authorize")?.toLowerCase() === "both") {
    throw usage(
      "Cannot use -authorize both with -servers: only an agent answers that call for one proxy; " +
        "use -authorize match",
    );
  }
  if (flags.text("http-addr") !== undefined) {
    warnings.push(`${flags.origin("http-addr")} does nothing with -servers`);
  }
  if (flags.given("stale")) {
    warnings.push("-stale does nothing with -servers: what may come from any server does");
  }
}

function readLogin(flags: FlagValues, warnings: string[]): ServersFlags["login"] | undefined {
  const authMethod = flags.text("login-auth-method");
  if (authMethod === undefined) {
    const alone = SERVERS_ONLY.find((name) => name.startsWith("login-") && flags.given(name));
    if (alone === undefined) return undefined;
    throw usage(
      `Cannot use -${alone} without -login-auth-method: give the auth method to log in with`,
    );
  }
  const bearerToken = flags.text("login-bearer-token");
  const bearerTokenFile = flags.text("login-bearer-token-file");
  if (bearerToken === undefined && bearerTokenFile === undefined) {
    throw usage("Cannot log in: nothing says with what; give -login-bearer-token-file");
  }
  for (const name of ["token", "token-file"]) {
    if (flags.text(name) !== undefined) {
      warnings.push(`${flags.origin(name)} does nothing: -login-auth-method counts before it`);
    }
  }
  return {
    authMethod,
    bearerToken: bearerToken ?? "",
    bearerTokenFile: bearerTokenFile ?? "",
    meta: readPairs(flags.list("login-meta"), "-login-meta"),
    datacenter: flags.text("login-datacenter") ?? "",
    namespace: flags.text("login-namespace") ?? "",
    partition: flags.text("login-partition") ?? "",
  };
}

function readPort(flags: FlagValues, name: string): number | undefined {
  const text = flags.text(name);
  if (text === undefined) return undefined;
  const port = parsePort(text, 1);
  if (port === undefined) throw badValue(flags, name, "want a number from 1 to 65535");
  return port;
}
