/**
 * The flags of a proxy that has no agent beside it, only Consul's servers.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { AgentFlags, ServersFlags } from "../../consul/mod.ts";
import { type FlagGroup, type FlagValues, quote } from "./args_flags.ts";
import { badValue, parsePort } from "./args_values.ts";

export const SERVERS: FlagGroup = {
  title: "Without an agent: Consul's servers",
  flags: [
    {
      name: "servers",
      kind: "text",
      value: "ADDRESS,...",
      help:
        "Ask Consul's servers, not an agent: addresses, DNS names (of each all addresses), or " +
        "exec=COMMAND that prints addresses. Any of them will do; the others are learned from it.",
    },
    {
      name: "node",
      kind: "text",
      value: "NAME",
      help: "Node in the catalog that the proxy is registered on. Needed with -servers.",
    },
    {
      name: "node-address",
      kind: "text",
      value: "IP",
      byDefault: "the address in -listen",
      help: "With -register: where others reach this host, and the node where it has to be made.",
    },
    {
      name: "check-http",
      kind: "text",
      value: "PATH",
      help:
        "With -register: the application is well while it answers this path with 2xx; without, " +
        "while it takes connections.",
    },
    {
      name: "grpc-port",
      kind: "text",
      value: "PORT",
      byDefault: "8503, without TLS 8502",
      help: "Port of the servers for gRPC.",
    },
    {
      name: "http-port",
      kind: "text",
      value: "PORT",
      env: "POSTERN_HTTP_PORT",
      byDefault: "8501, without TLS 8500",
      help: "Port of the servers for the HTTP API.",
    },
    {
      name: "tls-disabled",
      kind: "switch",
      help: "Talk to the servers in plain text; who reads it has the token.",
    },
    {
      name: "server-watch-disabled",
      kind: "switch",
      help: "Use only what -servers gives, as behind a load balancer.",
    },
    {
      name: "login-auth-method",
      kind: "text",
      value: "NAME",
      help: "Log in with this auth method for a token, and log out at the end.",
    },
    {
      name: "login-bearer-token-file",
      kind: "text",
      value: "FILE",
      help: "File with the bearer token to log in with; read for each login.",
    },
    {
      name: "login-bearer-token",
      kind: "text",
      value: "TOKEN",
      help: "The bearer token itself. Everyone on this machine can read it here.",
    },
    {
      name: "login-meta",
      kind: "list",
      value: "KEY=VALUE",
      help: "What the token's description says. May be repeated.",
    },
    { name: "login-datacenter", kind: "text", value: "NAME", help: "Datacenter to log in to." },
    {
      name: "login-namespace",
      kind: "text",
      value: "NAME",
      help: "Namespace of the auth method (Consul Enterprise).",
    },
    {
      name: "login-partition",
      kind: "text",
      value: "NAME",
      help: "Partition of the auth method (Consul Enterprise).",
    },
  ],
};

const SERVERS_ONLY = SERVERS.flags.map(({ name }) => name).filter((name) => name !== "servers");

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
    throw new ProxyError(
      "usage",
      `Cannot use -${alone} without -servers: it is about Consul's servers; give both`,
    );
  }
  refuseAgentsOwn(flags, warnings);
  const node = flags.text("node");
  if (node === undefined) {
    throw new ProxyError(
      "usage",
      "Cannot use -servers without -node: servers keep registrations by node; give the name of " +
        "the one that the proxy is registered on",
    );
  }
  const grpcPort = readPort(flags, "grpc-port");
  const httpPort = readPort(flags, "http-port");
  const { httpAddr: _agent, stale: _always, ...shared } = agentFlags;
  return {
    ...shared,
    ...{ servers, node },
    ...(grpcPort !== undefined && { grpcPort }),
    ...(httpPort !== undefined && { httpPort }),
    tlsDisabled: flags.on("tls-disabled"),
    serverWatchDisabled: flags.on("server-watch-disabled"),
    ...readLogin(flags, warnings),
  };
}

function refuseAgentsOwn(flags: FlagValues, warnings: string[]): void {
  for (const name of ["config", "http-addr"]) {
    if (!flags.given(name)) continue;
    throw new ProxyError(
      "usage",
      `Cannot use -servers with -${name}: give the one that the proxy is to ask`,
    );
  }
  if (flags.text("authorize")?.toLowerCase() === "both") {
    throw new ProxyError(
      "usage",
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

function readLogin(flags: FlagValues, warnings: string[]): Pick<ServersFlags, "login"> {
  const authMethod = flags.text("login-auth-method");
  if (authMethod === undefined) {
    const alone = SERVERS_ONLY.find((name) => name.startsWith("login-") && flags.given(name));
    if (alone === undefined) return {};
    throw new ProxyError(
      "usage",
      `Cannot use -${alone} without -login-auth-method: give the auth method to log in with`,
    );
  }
  const bearerToken = flags.text("login-bearer-token");
  const bearerTokenFile = flags.text("login-bearer-token-file");
  if (bearerToken === undefined && bearerTokenFile === undefined) {
    throw new ProxyError(
      "usage",
      "Cannot log in: nothing says with what; give -login-bearer-token-file",
    );
  }
  for (const name of ["token", "token-file"]) {
    if (flags.text(name) !== undefined) {
      warnings.push(`${flags.origin(name)} does nothing: -login-auth-method counts before it`);
    }
  }
  return {
    login: {
      authMethod,
      bearerToken: bearerToken ?? "",
      bearerTokenFile: bearerTokenFile ?? "",
      meta: readMeta(flags),
      datacenter: flags.text("login-datacenter") ?? "",
      namespace: flags.text("login-namespace") ?? "",
      partition: flags.text("login-partition") ?? "",
    },
  };
}

function readMeta(flags: FlagValues): Readonly<Record<string, string>> {
  return Object.fromEntries(
    flags.list("login-meta").map((text) => {
      const at = text.indexOf("=");
      if (at < 1) {
        throw new ProxyError("usage", `Cannot read -login-meta ${quote(text)}: want KEY=VALUE`);
      }
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

function readPort(flags: FlagValues, name: string): number | undefined {
  const text = flags.text(name);
  if (text === undefined) return undefined;
  const port = parsePort(text, 1);
  if (port === undefined) throw badValue(flags, name, "want a number from 1 to 65535");
  return port;
}
