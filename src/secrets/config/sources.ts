/** The context in which credentials are read, and our own form of the sources besides files. @module */

import * as v from "valibot";
import type { Address } from "../../base/mod.ts";
import {
  type ConfigPath,
  defined,
  duration,
  isSocketPath,
  type OutputOf,
  type Problem,
  reader,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import type { XdsNode } from "../../xds/mod.ts";
import {
  type CredentialsPlan,
  INITIAL_FETCH_TIMEOUT_MS,
  type SdsServer,
  type SecretRef,
} from "../model/plan.ts";
import type { SecretType } from "../model/secret.ts";

export const TIMEOUT_ENTRIES = {
  initialFetchTimeout: v.optional(duration(0), `${INITIAL_FETCH_TIMEOUT_MS}ms`),
};

/** Certificates of one listener: it may serve a thousand hosts by name. */
export const CERTIFICATES_LIMIT = 10_000;

export const SDS_ENTRIES = {
  cluster: text(),
  api: v.optional(v.picklist(["auto", "sotw", "delta"], "must be auto, sotw or delta"), "auto"),
};

export const SDS_SECRET_ENTRIES = { ...SDS_ENTRIES, name: text(), ...TIMEOUT_ENTRIES };

export const WORKLOAD_ENTRIES = {
  socket: v.exactOptional(text()),
  id: v.exactOptional(v.pipe(
    text(),
    v.maxLength(2_048, "is longer than 2048 characters"),
    v.regex(
      /^spiffe:\/\/[a-z0-9._-]+(?:\/[A-Za-z0-9._-]+)+$/,
      "must be a SPIFFE id such as spiffe://example.org/web",
    ),
  )),
  hint: v.exactOptional(text()),
  // A long grace would amount to ignoring a withdrawal.
  withdrawalGrace: v.exactOptional(v.pipe(duration(0), v.maxValue(60_000, "must be at most 1m"))),
  ...TIMEOUT_ENTRIES,
};

/** Makes the secret of parsed fields; reports why there is none. */
export type RefOf<T extends v.ObjectEntries> = (
  found: OutputOf<T>,
  report: Report,
) => SecretRef | undefined;

/** The agent's leaf or roots, or the file's own credentials, which have no timeout. */
export function consulRef(type: SecretType): SecretRef {
  const name = type === "certificate" ? "leaf" : "roots";
  return { type, name, source: { kind: "consul" }, initialFetchTimeoutMs: 0 };
}

export function sdsRef(type: SecretType, reading: TlsReading): RefOf<typeof SDS_SECRET_ENTRIES> {
  return (found, report) => {
    const { cluster, name, api, initialFetchTimeout: initialFetchTimeoutMs } = found;
    const server = serverOf(cluster, { reading, report, path: ["cluster"] });
    return server &&
      { type, name, source: { kind: "sds", server, api }, initialFetchTimeoutMs };
  };
}

export function serverOf(
  cluster: string,
  { reading: { sdsServers, noServers }, report, path }: {
    readonly reading: TlsReading;
    readonly report: Report;
    readonly path: ConfigPath;
  },
): SdsServer | undefined {
  if (Object.hasOwn(sdsServers, cluster)) return sdsServers[cluster];
  if (noServers) return report(path, noServers);
  const known = Object.keys(sdsServers);
  const fact = known.length > 0 ? `known are ${known.join(", ")}` : "none is configured";
  return report(path, `names "${cluster}", which is no SDS server; ${fact}`);
}

/** A header name of HTTP/2. gRPC's own names are reserved, and `-bin` marks base64. */
export function metadataName(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 255 ? value.toLowerCase() : "";
    if (!/^[a-z0-9_.-]+$/.test(lower)) return report([], "must be a header's name");
    if (/^grpc-|-bin$|^(?:te|host|content-type|user-agent|connection)$/.test(lower)) {
      return report([], "is a header that cannot be set");
    }
    return lower;
  });
}

export function sdsServer(
  given: Pick<SdsServer, "name" | "addresses"> & Partial<SdsServer>,
  node: XdsNode,
): SdsServer {
  return {
    tls: null,
    metadata: {},
    keepAliveMs: 30_000,
    keepAliveTimeoutMs: 5_000,
    backoffBaseMs: 500,
    backoffMaxMs: 30_000,
    node,
    ...given,
  };
}

/** The host, if all addresses have the same one. */
export function hostOf(addresses: readonly Address[]): string | undefined {
  const hosts = new Set(addresses.map((address) => address.kind === "tcp" ? address.host : ""));
  const [host] = hosts;
  return hosts.size === 1 && host ? host : undefined;
}

/** Whether bytes to an address stay on this machine, so that keys may be sent in clear. */
export function isLoopback(address: Address): boolean {
  if (address.kind === "unix") return true;
  const host = address.host.toLowerCase();
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** The variable that a workload may have (SPIFFE Workload Endpoint 4). */
const SOCKET_VARIABLE = "SPIFFE_ENDPOINT_SOCKET";

export function workloadRef(type: SecretType, { env }: TlsReading): RefOf<typeof WORKLOAD_ENTRIES> {
  return (found, report) => {
    const { id, hint, withdrawalGrace: withdrawalGraceMs } = found;
    const socket = found.socket ?? env[SOCKET_VARIABLE];
    const missing = found.socket === undefined ? `is missing, and ${SOCKET_VARIABLE} ` : "";
    if (!socket) return report(["socket"], `${missing}is not set in the environment`);
    const address = parseEndpointSocket(socket);
    if (typeof address === "string") {
      const use = `Cannot use ${JSON.stringify(socket.slice(0, 200))} as a Workload API socket`;
      return report(["socket"], `${missing}is of no use: ${use}: ${address}`);
    }
    return {
      type,
      name: type === "validation" ? "bundles" : id ?? hint ?? "default",
      source: { kind: "workload", address, ...defined({ id, hint, withdrawalGraceMs }) },
      initialFetchTimeoutMs: found.initialFetchTimeout,
    };
  };
}

const IPV4 = v.pipe(v.string(), v.ipv4());
const IPV6 = v.pipe(v.string(), v.ipv6());

/** The address of `unix:///run/agent.sock` or `tcp://127.0.0.1:8081`, or why a text is neither. */
export function parseEndpointSocket(text: string): Address | string {
  if (text.startsWith("unix:")) return parseUnix(text);
  if (text.startsWith("tcp:")) return parseTcp(text);
  return "it begins with neither unix:// nor tcp://";
}

function parseUnix(text: string): Address | string {
  if (!text.startsWith("unix://")) return "write unix:///run/agent.sock";
  const path = text.slice("unix://".length);
  if (!path.startsWith("/")) {
    return "it names a host or a relative path: write unix:///run/agent.sock";
  }
  if (/[?#]/.test(path)) return "a unix socket has a path and nothing else";
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    // A "%" without two hex digits, or bytes that are not UTF-8.
    return "the path is badly escaped";
  }
  if (path.endsWith("/") || !isSocketPath(decoded)) {
    return "the path is not one of a socket, or longer than 107 bytes";
  }
  return { kind: "unix", path: decoded };
}

function parseTcp(text: string): Address | string {
  const match = /^tcp:\/\/(?:\[([0-9A-Fa-f:.]+)\]|([^\s[\]:/?#@]+)):(\d{1,5})(.*)$/s.exec(text);
  if (!match) return "write tcp://127.0.0.1:8081, with an IP address and a port";
  const [, ipv6, name, digits = "", rest] = match;
  if (rest) return "nothing may follow the port";
  const host = ipv6 ?? name ?? "";
  // A name could lead to another host later, which hands out identities of its own.
  if (!v.is(ipv6 === undefined ? IPV4 : IPV6, host)) {
    return `${JSON.stringify(host)} is not an IP address`;
  }
  const port = Number(digits);
  if (port < 1 || port > 65_535) return "the port must be from 1 to 65535";
  return { kind: "tcp", host, port };
}

export interface TlsConfigContext {
  readonly kind: "listener" | "upstream";
  /** The place of the value, for problems: `["upstreams", 0, "tls"]`. */
  readonly path: ConfigPath;
  /** By name, from `parseSdsServers`. */
  readonly sdsServers: Readonly<Record<string, SdsServer>>;
  /** Our node at SDS servers that the value describes itself (`google_grpc`). */
  readonly node: XdsNode;
  /** For `SPIFFE_ENDPOINT_SOCKET`. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface TlsForm {
  readonly plan: CredentialsPlan;
  /** An `UpstreamTlsContext`'s. */
  readonly sni?: string;
}

export type ParsedTls =
  | TlsForm & {
    readonly kind: "valid";
    /** Settings without effect or with another one; whole sentences. */
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

export interface ServerReading {
  /** Our node, unless the server's configuration has its own. */
  readonly node: XdsNode;
  warn(message: string): void;
}

export interface TlsReading extends TlsConfigContext, ServerReading {
  /** Why no SDS server may be named at all. */
  readonly noServers?: string;
}
