/** Settings of `postern dataplane` about Consul's servers, token and registration. @module */

import { usage } from "../flags/parse_flags.ts";
import { canonicalIpText, ProxyError } from "../../base/mod.ts";
import { DATAPLANE_FLAGS, type ServersFlags } from "../../consul/mod.ts";
import { defined } from "../../base/schema.ts";
import { badValue, readInteger } from "../flags/read_values.ts";
import type { DataplaneValues } from "./values.ts";

interface ServersPart {
  readonly serversFlags: ServersFlags;
  readonly proxyId: string;
  readonly warnings: readonly string[];
}

/** Settings that name the proxy, each with its old name. */
const NAMES = {
  id: ["proxy-id", "proxy-service-id"],
  idPath: ["proxy-id-path", "proxy-service-id-path"],
  nodeName: ["proxy-node-name", "service-node-name"],
  nodeId: ["proxy-node-id", "service-node-id"],
  namespace: ["proxy-namespace", "service-namespace"],
  partition: ["proxy-partition", "service-partition"],
} as const;

const PORT = { atLeast: 1, atMost: 65_535 };

/** `readText` reads a whole file, within its bounds. Throws `usage` and `config_invalid`. */
export function readServers(
  values: DataplaneValues,
  readText: (path: string, flag: string) => string,
): ServersPart {
  const warnings: string[] = [];
  const servers = values.text("addresses");
  if (servers === undefined) throw missing("consul addresses not specified", "-addresses");
  const named = readNames(values, warnings);
  const proxyId = readProxyId(named, readText);
  const tlsDisabled = values.on("tls-disabled");
  const serverName = values.text("tls-server-name") ?? (isName(servers) ? servers : undefined);
  const texts = defined({
    caPath: values.text("ca-certs"),
    clientCert: values.text("tls-cert"),
    clientKey: values.text("tls-key"),
    tlsServerName: serverName,
    namespace: named("namespace"),
    partition: named("partition"),
  });
  return {
    serversFlags: {
      servers,
      node: readNode(named),
      grpcPort: readInteger(values, "grpc-port", PORT),
      httpPort: values.text("http-port") === undefined
        ? tlsDisabled ? 8_500 : 8_501
        : readInteger(values, "http-port", PORT),
      tlsDisabled,
      tlsInsecure: values.on("tls-insecure-skip-verify"),
      serverWatchDisabled: values.on("server-watch-disabled"),
      ...texts,
      ...readCredentials(values, warnings),
      names: DATAPLANE_FLAGS,
    },
    proxyId,
    warnings,
  };
}

type Named = (name: keyof typeof NAMES) => string | undefined;

/** Old names count only where none of the new ones is given. */
function readNames(values: DataplaneValues, warnings: string[]): Named {
  const given = (at: 0 | 1) =>
    Object.values(NAMES).map((names) => names[at]).filter((name) =>
      values.text(name) !== undefined
    );
  const [anyNew] = given(0);
  if (anyNew === undefined) return (name) => values.text(NAMES[name][1]);
  for (const old of given(1)) {
    warnings.push(`${values.origin(old)} does nothing: ${values.origin(anyNew)} is given`);
  }
  return (name) => values.text(NAMES[name][0]);
}

function readNode(named: Named): string {
  // Consul takes a node's id wherever a path has its name.
  const node = named("nodeId") ?? named("nodeName");
  if (node === undefined) throw missing("proxy node not specified", "-proxy-node-name");
  return node;
}

function readProxyId(named: Named, readText: (path: string, flag: string) => string): string {
  const given = named("id");
  if (given !== undefined) return given;
  const path = named("idPath");
  if (path === undefined) throw missing("proxy ID not specified", "-proxy-id or -proxy-id-path");
  const id = readText(path, "-proxy-id-path").trim();
  if (id.length > 0 && id.length <= 1_024 && !/[^\x21-\x7e]/.test(id)) return id;
  throw new ProxyError(
    "config_invalid",
    `Cannot use -proxy-id-path ${JSON.stringify(path)}: want one line with the id of the proxy`,
  );
}

/** False: an address, or a command. */
function isName(servers: string): boolean {
  return !servers.startsWith("exec=") && canonicalIpText(servers) === undefined;
}

function readCredentials(
  values: DataplaneValues,
  warnings: string[],
): Pick<ServersFlags, "token" | "login"> {
  const type = values.text("credential-type") ?? "";
  const unused = (names: readonly string[], wanted: string) => {
    for (const name of names.filter((name) => values.text(name) !== undefined)) {
      warnings.push(`${values.origin(name)} does nothing without -credential-type ${wanted}`);
    }
  };
  const login = ["login-auth-method", "login-bearer-token", "login-bearer-token-path"];
  if (type !== "static") unused(["static-token"], "static");
  if (type !== "login") unused(login, "login");
  for (const name of ["static-token", "login-bearer-token"]) {
    if (values.text(name) === undefined || values.origin(name) !== `-${name}`) continue;
    warnings.push(`everyone on this machine can read -${name}: it is on the command line`);
  }
  switch (type) {
    case "":
      return {};
    case "static":
      return { token: values.text("static-token") ?? "" };
    case "login":
      return { login: readLogin(values) };
    default:
      throw badValue(values, "credential-type", "unknown credential type; want static or login");
  }
}

function readLogin(values: DataplaneValues): NonNullable<ServersFlags["login"]> {
  const authMethod = values.text("login-auth-method");
  const bearerToken = values.text("login-bearer-token") ?? "";
  const bearerTokenFile = values.text("login-bearer-token-path") ?? "";
  if (bearerToken === "" && bearerTokenFile === "") {
    throw missing(
      "bearer token (or path to a file containing a bearer token) is required for login",
      "-login-bearer-token-path",
    );
  }
  if (authMethod === undefined) {
    throw missing("auth method is required for login", "-login-auth-method");
  }
  return {
    authMethod,
    bearerToken,
    bearerTokenFile,
    meta: values.meta(),
    datacenter: values.text("login-datacenter") ?? "",
    namespace: values.text("login-namespace") ?? "",
    partition: values.text("login-partition") ?? "",
  };
}

/** `fact`: consul-dataplane's message. */
function missing(fact: string, flag: string): ProxyError {
  return usage(`Cannot start: ${fact}; give ${flag}`);
}
