/**
 * What Consul's servers are asked by gRPC, with answers as values: bounded, and nothing of theirs judged
 * yet. An answer that breaks a rule is refused whole.
 *
 * @module
 */

import { canonicalIpText, hasUnseen } from "../../base/mod.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import { SERVERS_PROTOBUF } from "./messages.ts";
import type { Method } from "./types.ts";

/** What a server says that it can. */
export interface Features {
  readonly watchServers: boolean;
  /** It signs certificates for keys of ours. */
  readonly signs: boolean;
}

export interface BootstrapRequest {
  readonly nodeName: string;
  readonly proxyId: string;
  readonly namespace: string;
  readonly partition: string;
}

/** What is known of a proxy whose name its token may read. */
export interface BootstrapParams {
  /** The service that it stands for. */
  readonly service: string;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  readonly nodeName: string;
}

/** A CA as servers tell it. */
export interface ServerRoot {
  readonly id: string;
  readonly name: string;
  /** PEM. */
  readonly rootCert: string;
  readonly active: boolean;
}

export interface ServerRoots {
  readonly activeRootId: string;
  /** `<uuid>.consul`, as written. */
  readonly trustDomain: string;
  readonly roots: readonly ServerRoot[];
}

/** Far more than a cluster has: beyond them an answer is refused. */
export const SERVER_LIMIT = 100;
const ROOT_LIMIT = 100;
const FEATURE_LIMIT = 100;
/** A certificate, a chain of them, or a name. */
const TEXT_LIMIT = 64 * 1024;

const NONE = new Uint8Array();

export const GET_FEATURES: Method<null, Features> = {
  path: "/hashicorp.consul.dataplane.DataplaneService/GetSupportedDataplaneFeatures",
  what: "learn what the server can",
  resource: "features",
  encode: () => NONE,
  decode(bytes) {
    const { supported_dataplane_features } = SERVERS_PROTOBUF.decode("SupportedFeatures", bytes);
    const features = listOf(supported_dataplane_features, "features", FEATURE_LIMIT);
    const has = (name: string) =>
      features.some(({ feature_name, supported }) => feature_name === name && supported === true);
    return {
      watchServers: has("WATCH_SERVERS"),
      signs: has("EDGE_CERTIFICATE_MANAGEMENT"),
    };
  },
};

export const GET_BOOTSTRAP_PARAMS: Method<BootstrapRequest, BootstrapParams> = {
  path: "/hashicorp.consul.dataplane.DataplaneService/GetEnvoyBootstrapParams",
  what: "find the proxy's registration",
  resource: "bootstrap_params",
  encode: ({ nodeName, proxyId, namespace, partition }) =>
    SERVERS_PROTOBUF.encode("BootstrapRequest", {
      ...{ node_name: nodeName, proxy_id: proxyId, namespace, partition },
    }),
  decode(bytes) {
    const params = SERVERS_PROTOBUF.decode("BootstrapParams", bytes);
    return {
      service: textOf(params.service, "service"),
      namespace: textOf(params.namespace, "namespace"),
      partition: textOf(params.partition, "partition"),
      datacenter: textOf(params.datacenter, "datacenter"),
      nodeName: textOf(params.node_name, "node_name"),
    };
  },
};

/** Answers with the addresses of the servers that are ready, IP addresses in one spelling each. */
export const WATCH_SERVERS: Method<null, readonly string[]> = {
  path: "/hashicorp.consul.serverdiscovery.ServerDiscoveryService/WatchServers",
  what: "follow which servers there are",
  resource: "watch_servers",
  encode: () => NONE,
  decode(bytes) {
    const { servers } = SERVERS_PROTOBUF.decode("ServerList", bytes);
    const addresses = listOf(servers, "servers", SERVER_LIMIT).map(({ address }) => {
      const ip = canonicalIpText(textOf(address, "address"));
      // A name could lead to somebody else later.
      if (ip === undefined) throw new RangeError(`${shown(address)} is not an IP address`);
      return ip;
    });
    return [...new Set(addresses)];
  },
};

export const WATCH_ROOTS: Method<null, ServerRoots> = {
  path: "/hashicorp.consul.connectca.ConnectCAService/WatchRoots",
  what: "follow the roots of the mesh",
  resource: "watch_roots",
  encode: () => NONE,
  decode(bytes) {
    const message = SERVERS_PROTOBUF.decode("RootList", bytes);
    return {
      activeRootId: textOf(message.active_root_id, "active_root_id"),
      trustDomain: textOf(message.trust_domain, "trust_domain"),
      roots: listOf(message.roots, "roots", ROOT_LIMIT).map(rootOf),
    };
  },
};

/** A CSR in PEM; answers with certificates in PEM, leaf first. */
export const SIGN: Method<string, string> = {
  path: "/hashicorp.consul.connectca.ConnectCAService/Sign",
  what: "have the certificate signed",
  resource: "sign",
  encode: (csr) => SERVERS_PROTOBUF.encode("SignRequest", { csr }),
  decode: (bytes) => textOf(SERVERS_PROTOBUF.decode("Signed", bytes).cert_pem, "cert_pem", true),
};

function rootOf(root: PlainMessage): ServerRoot {
  return {
    id: textOf(root.id, "id"),
    name: textOf(root.name, "name"),
    rootCert: textOf(root.root_cert, "root_cert", true),
    active: root.active === true,
  };
}

function listOf(value: unknown, name: string, limit: number): readonly PlainMessage[] {
  const items = Array.isArray(value) ? value : [];
  if (items.length > limit) throw new RangeError(`it has more than ${limit} ${name}`);
  return items;
}

/** Names have one line without tricks; PEM has several, which end as ours do. */
function textOf(value: unknown, name: string, lines = false): string {
  const written = typeof value === "string" ? value : "";
  if (written.length > TEXT_LIMIT) throw new RangeError(`${name} is too long`);
  const text = lines ? written.replaceAll("\r\n", "\n") : written;
  if (hasUnseen(text) || (!lines && /[\t\n]/.test(text))) {
    throw new RangeError(`${name} has characters that it must not have`);
  }
  return text;
}

function shown(value: unknown): string {
  return JSON.stringify(String(value ?? "").slice(0, 100));
}
