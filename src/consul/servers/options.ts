/** How to reach Consul's servers, by flags, or else by Consul's variables. @module */

import { ProxyError } from "../../base/mod.ts";
import { readTlsFiles } from "../http/files.ts";
import {
  type AgentFlags,
  checkedToken,
  type ConsulVariables,
  pick,
  tlsFilesOf,
} from "../http/options.ts";
import { type FlagNames, PROXY_FLAGS } from "../model/flag_names.ts";
import { readServerPlaces } from "./server_addresses.ts";
import type { LoginOptions, ServersOptions } from "./types.ts";

/** Flags of the command line; absent means not given. */
export interface ServersFlags extends Omit<AgentFlags, "httpAddr" | "stale"> {
  /** Addresses and names with commas between them, or `exec=COMMAND`. */
  readonly servers: string;
  readonly node: string;
  readonly grpcPort?: number;
  readonly httpPort?: number;
  readonly tlsDisabled?: boolean;
  /** Overrules CONSUL_HTTP_SSL_VERIFY. */
  readonly tlsInsecure?: boolean;
  readonly serverWatchDisabled?: boolean;
  readonly login?: LoginOptions;
  /** For messages; absent: those of `postern proxy`. */
  readonly names?: FlagNames;
}

const PORTS = { plain: { grpc: 8502, http: 8500 }, tls: { grpc: 8503, http: 8501 } };

/** Fails with `config_invalid`, naming the flag or variable. */
export function resolveServersOptions(flags: ServersFlags, env: ConsulVariables): ServersOptions {
  const { names = PROXY_FLAGS } = flags;
  const places = readServerPlaces(flags.servers, names.servers);
  const files = tlsFilesOf(flags, env);
  const verify = flags.tlsInsecure === undefined ? files.verify : !flags.tlsInsecure;
  const tls = flags.tlsDisabled ? null : { ...files, verify, names };
  if (tls) readTlsFiles(tls);
  const ports = tls ? PORTS.tls : PORTS.plain;
  const login = flags.login ?? null;
  // Any other name can be written in a path: ECS has a cluster's name there, with a slash.
  if (/^\.{1,2}$/.test(flags.node)) {
    const message = `Cannot use ${names.node} "${flags.node}": want a node's name`;
    throw new ProxyError("config_invalid", message);
  }
  return {
    places,
    grpcPort: flags.grpcPort ?? ports.grpc,
    httpPort: flags.httpPort ?? ports.http,
    tls,
    watchServers: !flags.serverWatchDisabled,
    node: flags.node,
    names,
    ...checkedToken(flags, env, { name: names.tokenText, isUsed: login === null }),
    login,
    datacenter: flags.datacenter ?? "",
    namespace: pick(flags.namespace, env.CONSUL_NAMESPACE),
    partition: pick(flags.partition, env.CONSUL_PARTITION),
  };
}
