/**
 * The gRPC methods that Consul's servers offer to data planes, as far as a proxy needs them. Answers are
 * bounded values, and not judged yet; an answer that breaks a rule is refused whole. Field numbers are
 * those of Consul's published `.proto` files.
 *
 * @module
 */

import { canonicalIpText, hasUnseen } from "../../base/mod.ts";
import { type PlainMessage, Protobuf } from "../../wire/mod.ts";
import type { Root, Roots } from "../model/values.ts";
import type { Method } from "./types.ts";

interface Features {
  readonly watchServers: boolean;
  /** It signs certificates for our own keys. */
  readonly signs: boolean;
}

interface BootstrapRequest {
  readonly nodeName: string;
  readonly proxyId: string;
  readonly namespace: string;
  readonly partition: string;
}

/** Far more than a cluster has; an answer with more is refused. */
export const SERVER_LIMIT = 100;
const ROOT_LIMIT = 100;
const FEATURE_LIMIT = 100;
/** A certificate, a chain, or a name. */
const TEXT_LIMIT = 64 * 1024;

const NONE = new Uint8Array();

export const SERVERS_PROTOBUF: Protobuf = new Protobuf({
  // hashicorp.consul.dataplane
  SupportedFeatures: { supported_dataplane_features: "1 repeated FeatureSupport" },
  FeatureSupport: {
    feature_name:
      "1 enum UNSPECIFIED WATCH_SERVERS EDGE_CERTIFICATE_MANAGEMENT ENVOY_BOOTSTRAP_CONFIGURATION FIPS",
    supported: "2 bool",
  },
  BootstrapRequest: {
    node_name: "2 string",
    partition: "4 string",
    namespace: "5 string",
    proxy_id: "6 string",
  },
  // hashicorp.consul.serverdiscovery
  ServersRequest: { wan: "1 bool" },
  ServerList: { servers: "1 repeated Server" },
  Server: { id: "1 string", address: "2 string", version: "3 string" },
  // hashicorp.consul.connectca
  RootList: { active_root_id: "1 string", trust_domain: "2 string", roots: "3 repeated Root" },
  Root: {
    id: "1 string",
    name: "2 string",
    // PEM.
    root_cert: "5 string",
    active: "7 bool",
  },
  SignRequest: { csr: "1 string" },
  Signed: { cert_pem: "2 string" },
});

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
    return { watchServers: has("WATCH_SERVERS"), signs: has("EDGE_CERTIFICATE_MANAGEMENT") };
  },
};

/** The token may read the proxy's name; the parameters themselves are Envoy's. */
export const GET_BOOTSTRAP_PARAMS: Method<BootstrapRequest, null> = {
  path: "/hashicorp.consul.dataplane.DataplaneService/GetEnvoyBootstrapParams",
  what: "find the proxy's registration",
  resource: "bootstrap_params",
  encode: ({ nodeName, proxyId, namespace, partition }) =>
    SERVERS_PROTOBUF.encode("BootstrapRequest", {
      node_name: nodeName,
      proxy_id: proxyId,
      namespace,
      partition,
    }),
  decode: () => null,
};

/** The addresses of the servers that are ready: IP addresses in canonical form. */
export const WATCH_SERVERS: Method<null, readonly string[]> = {
  path: "/hashicorp.consul.serverdiscovery.ServerDiscoveryService/WatchServers",
  what: "follow which servers there are",
  resource: "watch_servers",
  encode: () => NONE,
  decode(bytes) {
    const { servers } = SERVERS_PROTOBUF.decode("ServerList", bytes);
    const addresses = listOf(servers, "servers", SERVER_LIMIT).map(({ address }) => {
      const ip = canonicalIpText(textOf(address, "address"));
      // A name could lead elsewhere later.
      if (ip === undefined) throw new RangeError(`${shown(address)} is not an IP address`);
      return ip;
    });
    return [...new Set(addresses)];
  },
};

/** The same value as that of `/v1/connect/ca/roots`, but for external trust domains. */
export const WATCH_ROOTS: Method<null, Roots> = {
  path: "/hashicorp.consul.connectca.ConnectCAService/WatchRoots",
  what: "follow the roots of the mesh",
  resource: "watch_roots",
  encode: () => NONE,
  decode(bytes) {
    const message = SERVERS_PROTOBUF.decode("RootList", bytes);
    return {
      activeId: textOf(message.active_root_id, "active_root_id"),
      trustDomain: textOf(message.trust_domain, "trust_domain").toLowerCase(),
      roots: listOf(message.roots, "roots", ROOT_LIMIT).map(rootOf),
    };
  },
};

/** Signs a CSR in PEM; the answer has certificates in PEM, leaf first. */
export const SIGN: Method<string, string> = {
  path: "/hashicorp.consul.connectca.ConnectCAService/Sign",
  what: "have the certificate signed",
  resource: "sign",
  encode: (csr) => SERVERS_PROTOBUF.encode("SignRequest", { csr }),
  decode: (bytes) => textOf(SERVERS_PROTOBUF.decode("Signed", bytes).cert_pem, "cert_pem", true),
};

function rootOf(root: PlainMessage): Root {
  return {
    id: textOf(root.id, "id"),
    name: textOf(root.name, "name"),
    pem: textOf(root.root_cert, "root_cert", true),
    active: root.active === true,
    externalTrustDomain: "",
  };
}

function listOf(value: unknown, name: string, limit: number): readonly PlainMessage[] {
  const items = Array.isArray(value) ? value : [];
  if (items.length > limit) throw new RangeError(`it has more than ${limit} ${name}`);
  return items;
}

/** A name is one line of visible characters; PEM has several lines, with any line ends. */
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
