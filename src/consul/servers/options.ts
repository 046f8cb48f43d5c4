/**
 * How to reach Consul's servers: flags first, then the variables that every Consul tool takes.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../flag_names.ts";
import { checkToken, readTlsFiles, readTokenFile, type TlsFiles } from "../http/files.ts";
import { type AgentFlags, readBool } from "../http/options.ts";
import { readServerPlaces } from "./server_addresses.ts";
import type { LoginOptions, ServersOptions } from "./types.ts";

/** As given; absent means not given. */
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

type Environment = Readonly<Record<string, string | undefined>>;

/** Fails with `config_invalid`, naming the flag or variable. */
export function resolveServersOptions(flags: ServersFlags, env: Environment): ServersOptions {
  const pick = (flag: string | undefined, name: string) => flag || env[name] || "";
  const { names = PROXY_FLAGS } = flags;
  const places = readServerPlaces(flags.servers, names.servers);
  const files: TlsFiles = {
    caFile: pick(flags.caFile, "CONSUL_CACERT"),
    caPath: pick(flags.caPath, "CONSUL_CAPATH"),
    certFile: pick(flags.clientCert, "CONSUL_CLIENT_CERT"),
    keyFile: pick(flags.clientKey, "CONSUL_CLIENT_KEY"),
    serverName: pick(flags.tlsServerName, "CONSUL_TLS_SERVER_NAME"),
    verify: !(flags.tlsInsecure ?? !readBool(env, "CONSUL_HTTP_SSL_VERIFY", true)),
    names,
  };
  const tls = flags.tlsDisabled ? null : files;
  if (tls) readTlsFiles(tls);
  const ports = tls ? PORTS.tls : PORTS.plain;

  // A token given by flag wins over a token file that merely lies in the environment.
  const tokenFile = flags.tokenFile || (flags.token ? "" : env.CONSUL_HTTP_TOKEN_FILE ?? "");
  const token = pick(flags.token, "CONSUL_HTTP_TOKEN");
  const login = flags.login ?? null;
  if (!login) {
    if (token) checkToken(token, flags.token ? names.tokenText : "CONSUL_HTTP_TOKEN");
    if (tokenFile) {
      readTokenFile(tokenFile, flags.tokenFile ? "-token-file" : "CONSUL_HTTP_TOKEN_FILE");
    }
  }
  // Anything else can be written in a path: ECS has the name of a cluster there, with a slash.
  if (/^\.{1,2}$/.test(flags.node)) {
    throw new ProxyError(
      "config_invalid",
      `Cannot use ${names.node} "${flags.node}": want a node's name`,
    );
  }
  return {
    places,
    grpcPort: flags.grpcPort ?? ports.grpc,
    httpPort: flags.httpPort ?? ports.http,
    tls,
    watchServers: !flags.serverWatchDisabled,
    node: flags.node,
    names,
    ...{ token, tokenFile, login },
    datacenter: flags.datacenter ?? "",
    namespace: pick(flags.namespace, "CONSUL_NAMESPACE"),
    partition: pick(flags.partition, "CONSUL_PARTITION"),
  };
}
