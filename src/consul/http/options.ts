/**
 * The agent's address and how to reach it, from flags and `CONSUL_*` variables as Consul's own commands
 * read them; flags win. Everything is checked here, so that a bad value stops the start.
 *
 * @module
 */

import { type Address, formatAddress, hostFault, ProxyError } from "../../base/mod.ts";
import { checkToken, readTlsFiles, readTokenFile, type TlsFiles } from "./files.ts";

/** Flags of the command line; absent ones come from the environment. */
export interface AgentFlags {
  readonly httpAddr?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly caFile?: string;
  readonly caPath?: string;
  readonly clientCert?: string;
  readonly clientKey?: string;
  readonly tlsServerName?: string;
  readonly datacenter?: string;
  readonly stale?: boolean;
  readonly namespace?: string;
  readonly partition?: string;
}

/** Checked; empty text means not given. */
export interface AgentOptions {
  readonly address: Address;
  /** Prefix of every path, for an agent behind a reverse proxy: `/consul`. */
  readonly pathPrefix: string;
  readonly tls: TlsFiles | null;
  readonly token: string;
  /** Wins over `token`, and is read again when it changes. */
  readonly tokenFile: string;
  /** `user:password`. */
  readonly basicAuth: string;
  readonly datacenter: string;
  /** Reads that may be stale are stale, also if the watch does not ask for it. */
  readonly stale: boolean;
  readonly namespace: string;
  readonly partition: string;
}

const DEFAULT_ADDRESS = "127.0.0.1:8500";

export type ConsulVariables = Readonly<Record<string, string | undefined>>;

/** Fails with `config_invalid`, naming the flag or variable. */
export function resolveAgentOptions(flags: AgentFlags, env: ConsulVariables): AgentOptions {
  const { address, pathPrefix, secure } = readAddress(flags.httpAddr, env);
  const files = tlsFilesOf(flags, env);
  const tls = secure ? files : null;
  if (tls) readTlsFiles(tls);
  return {
    address,
    pathPrefix,
    tls,
    ...checkedToken(flags, env, { name: "-token", isUsed: true }),
    basicAuth: checkBasicAuth(env.CONSUL_HTTP_AUTH ?? ""),
    datacenter: flags.datacenter ?? "",
    stale: flags.stale ?? false,
    namespace: pick(flags.namespace, env.CONSUL_NAMESPACE),
    partition: pick(flags.partition, env.CONSUL_PARTITION),
  };
}

export function pick(flag: string | undefined, variable: string | undefined): string {
  return flag || variable || "";
}

export function tlsFilesOf(flags: AgentFlags, env: ConsulVariables): TlsFiles {
  return {
    caFile: pick(flags.caFile, env.CONSUL_CACERT),
    caPath: pick(flags.caPath, env.CONSUL_CAPATH),
    certFile: pick(flags.clientCert, env.CONSUL_CLIENT_CERT),
    keyFile: pick(flags.clientKey, env.CONSUL_CLIENT_KEY),
    serverName: pick(flags.tlsServerName, env.CONSUL_TLS_SERVER_NAME),
    verify: readBool(env, "CONSUL_HTTP_SSL_VERIFY", true),
  };
}

/** `name`: the flag for a token in messages. A token that is not used is not checked. */
export function checkedToken(
  flags: AgentFlags,
  env: ConsulVariables,
  { name, isUsed }: { readonly name: string; readonly isUsed: boolean },
): Pick<AgentOptions, "token" | "tokenFile"> {
  // A token given by flag wins over a token file from the environment.
  const tokenFile = flags.tokenFile || (flags.token ? "" : env.CONSUL_HTTP_TOKEN_FILE ?? "");
  const token = pick(flags.token, env.CONSUL_HTTP_TOKEN);
  if (isUsed && token) checkToken(token, flags.token ? name : "CONSUL_HTTP_TOKEN");
  if (isUsed && tokenFile) {
    readTokenFile(tokenFile, flags.tokenFile ? "-token-file" : "CONSUL_HTTP_TOKEN_FILE");
  }
  return { token, tokenFile };
}

/**
 * The agent's address, for people and to compare: `host:port` or `unix:///path`. `httpAddr`: the value of
 * -http-addr; absent: the environment's.
 */
export function agentAddressText(httpAddr: string | undefined, env: ConsulVariables): string {
  const { address, pathPrefix } = readAddress(httpAddr, env);
  if (address.kind === "unix") return formatAddress(address);
  const host = address.host === "localhost" ? "127.0.0.1" : address.host;
  return formatAddress({ ...address, host }) + pathPrefix;
}

function readAddress(
  httpAddr: string | undefined,
  env: ConsulVariables,
): Pick<AgentOptions, "address" | "pathPrefix"> & { readonly secure: boolean } {
  const name = httpAddr ? "-http-addr" : "CONSUL_HTTP_ADDR";
  const text = pick(httpAddr, env.CONSUL_HTTP_ADDR) || DEFAULT_ADDRESS;
  // An error must not show a password, which may have any characters.
  const shown = JSON.stringify(text.replace(/^(\w+:\/\/)?.*@/s, "$1(not shown)@"));
  const forms = "write host:port, http://host:port, https://host:port or unix:///path";
  const bad = (fact: string) => invalid(`Cannot use ${name} ${shown}: ${fact}; ${forms}`);
  const [, scheme = "", rest = ""] = /^(?:([a-zA-Z][a-zA-Z0-9+.-]*):\/\/)?(.*)$/s.exec(text) ?? [];
  if (scheme === "unix") {
    if (!rest) throw bad("it has no path");
    return { address: { kind: "unix", path: rest }, pathPrefix: "", secure: false };
  }
  if (scheme && scheme !== "http" && scheme !== "https") {
    throw bad(`the scheme ${JSON.stringify(scheme)} is unknown`);
  }
  // A scheme never disables TLS that the variable demands.
  const secure = scheme === "https" || readBool(env, "CONSUL_HTTP_SSL", false);
  const slash = rest.indexOf("/");
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const pathPrefix = slash < 0 ? "" : rest.slice(slash).replace(/\/+$/, "");
  // deno-lint-ignore no-control-regex -- that is what it looks for
  if (/[\s?#\x00-\x1f]/.test(pathPrefix)) throw bad("its path has characters that need escaping");
  const parts = /^(\[[0-9a-fA-F:.%a-z]+\]|[^\s:@\[\]?#]*)(?::(\d+))?$/.exec(authority);
  if (!parts) {
    const isLogin = text.includes("@");
    const login = "it has a user and a password, which CONSUL_HTTP_AUTH is for";
    throw bad(isLogin ? login : "it is no host and port");
  }
  const host = (parts[1] ?? "").replace(/^\[|\]$/g, "") || "127.0.0.1";
  const fault = hostFault(host);
  if (fault !== undefined) throw bad(`it names ${fault}`);
  const port = parts[2] === undefined ? (secure ? 443 : 80) : Number(parts[2]);
  if (port < 1 || port > 65535) throw bad("the port is not within 1..65535");
  return { address: { kind: "tcp", host, port }, pathPrefix, secure };
}

function readBool(env: ConsulVariables, name: string, fallback: boolean): boolean {
  const text = env[name];
  if (text === undefined || text === "") return fallback;
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  if (/^(0|f|F|FALSE|false|False)$/.test(text)) return false;
  throw invalid(`Cannot use ${name} ${JSON.stringify(text)}: it is neither true nor false`);
}

function checkBasicAuth(text: string): string {
  // deno-lint-ignore no-control-regex -- that is what it looks for
  if (/[\x00-\x1f\x7f]/.test(text)) {
    throw invalid("Cannot use CONSUL_HTTP_AUTH: it has control characters; write user:password");
  }
  // Consul accepts a user alone, too.
  return text && !text.includes(":") ? `${text}:` : text;
}

function invalid(message: string): ProxyError {
  return new ProxyError("config_invalid", message);
}
