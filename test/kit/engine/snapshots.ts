/**
 * Snapshots for tests that need no agent: a service with credentials, a policy, upstreams.
 *
 * @module
 */

import { DEFAULT_OUTLIER } from "../../../src/balance/mod.ts";
import type { Address } from "../../../src/base/mod.ts";
import type { Authority } from "../certs/authority.ts";
import type { Intention } from "../../../src/policy/mod.ts";
import { inboundHttp } from "../../../src/source/parts/http_rules.ts";
import {
  type ChainPart,
  type CredentialsPart,
  type HttpRules,
  type InboundPart,
  oneWay,
  type Resolver,
  type Snapshot,
  type TargetPart,
  type UpstreamPart,
} from "../../../src/snapshot/mod.ts";

/** Versions that differ whenever a part is made anew. */
let version = 0;

export interface SnapshotOptions {
  readonly ca: Authority;
  readonly service: string;
  /** The local service; absent: no public listener. */
  readonly local?: Address;
  readonly inboundPort?: number;
  readonly intentions?: readonly Intention[];
  readonly defaultAction?: "allow" | "deny";
  readonly upstreams?: readonly UpstreamOptions[];
  readonly targets?: readonly TargetPart[];
  readonly overrides?: Partial<MeshSnapshot>;
}

/** Its chain leads to the target of its name unless another is given. */
export interface UpstreamOptions extends Partial<UpstreamPart>, Partial<Resolver> {
  readonly name: string;
}

/** One with credentials of the mesh. */
export type MeshSnapshot = Snapshot & { readonly credentials: CredentialsPart };

export function snapshotOf(options: SnapshotOptions): MeshSnapshot {
  const { ca, service, local, upstreams = [], targets = [] } = options;
  const leaf = ca.issueLeaf({ service });
  return {
    version: ++version,
    service,
    proxyId: `${service}-sidecar-proxy`,
    datacenter: "dc1",
    credentials: {
      version: ++version,
      certPem: leaf.certPem,
      keyPem: leaf.keyPem,
      rootPems: [ca.rootPem],
      trustDomains: [new URL(leaf.uri.replace("spiffe:", "http:")).host],
      uri: leaf.uri,
      serial: "01",
      notBeforeMs: Date.now() - 60_000,
      notAfterMs: Date.now() + 3_600_000,
    },
    certificates: {},
    validations: {},
    ownCredentials: {},
    policy: policyOf(options.intentions ?? [], options.defaultAction),
    tls: {
      version: ++version,
      incoming: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
      outgoing: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
      strictSpiffeChain: false,
    },
    exposed: {},
    edges: {},
    pluginCode: {},
    accessLog: null,
    tracing: null,
    telemetry: null,
    inbound: local ? { inbound: inboundOf({ local }, options.inboundPort) } : {},
    ...declared(...upstreams),
    targets: Object.fromEntries(targets.map((part) => [part.key, part])),
    ...options.overrides,
  };
}

export function inboundOf(
  part: Partial<InboundPart> & Pick<InboundPart, "local">,
  port = 0,
): InboundPart {
  return {
    version: ++version,
    bind: { kind: "tcp", host: "127.0.0.1", port },
    localConnectTimeoutMs: 5_000,
    handshakeTimeoutMs: 10_000,
    maxConnections: 0,
    authorize: "match",
    http: null,
    plugins: [],
    credentials: null,
    ...part,
  };
}

/** `snapshot` with its public listener, if it has one, changed. */
export function withInbound<S extends Snapshot>(snapshot: S, changes: Partial<InboundPart>): S {
  const { inbound } = snapshot.inbound;
  if (!inbound) return snapshot;
  return { ...snapshot, inbound: { inbound: { ...inbound, version: ++version, ...changes } } };
}

export function policyOf(
  intentions: readonly Intention[],
  defaultAction: "allow" | "deny" = "deny",
): Snapshot["policy"] {
  return { version: ++version, intentions, defaultAction };
}

export function intention(name: string, action: Intention["action"]): Intention {
  return {
    rule: `default/${name} => test (${action})`,
    source: { name, namespace: "default", partition: "default", peer: "" },
    action,
    precedence: name === "*" ? 8 : 9,
  };
}

/** Upstreams with their chains. */
export function declared(
  ...upstreams: readonly UpstreamOptions[]
): Pick<Snapshot, "upstreams" | "chains"> {
  const parts = upstreams.map(({ targets, balancing, outlier, ...part }) =>
    [
      upstreamOf(part),
      chainOf({
        targets: targets ?? [part.name],
        ...(balancing && { balancing }),
        ...(outlier && { outlier }),
      }),
    ] as const
  );
  return {
    upstreams: Object.fromEntries(parts.map(([part]) => [part.id, part])),
    chains: Object.fromEntries(parts.map(([part, chain]) => [part.chain, chain])),
  };
}

export function chainOf(
  resolver: Partial<Resolver> & Pick<Resolver, "targets">,
): ChainPart {
  return {
    version: ++version,
    ...oneWay(
      { balancing: { kind: "round_robin" }, outlier: DEFAULT_OUTLIER, ...resolver },
      "",
    ),
  };
}

/** Without a chain it has no endpoint. */
export function upstreamOf(
  part: Partial<UpstreamPart> & { readonly name: string },
): UpstreamPart {
  const id = `service:default/default/${part.name}`;
  return {
    version: ++version,
    id,
    chain: id,
    bind: { kind: "tcp", host: "127.0.0.1", port: 0 },
    maxConnections: 1_024,
    maxPending: 1_024,
    maxRequests: 1_024,
    http: null,
    plugins: [],
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    credentials: null,
    listener: null,
    ...part,
  };
}

export function targetOf(options: {
  readonly name: string;
  readonly uris: readonly string[];
  readonly ports: readonly number[];
  readonly overrides?: Partial<TargetPart>;
}): TargetPart {
  return {
    version: ++version,
    key: options.name,
    sni: `${options.name}.default.dc1.internal.test.consul`,
    cluster: `${options.name}.default.dc1.internal.test.consul`,
    spiffeUris: options.uris,
    connectTimeoutMs: 5_000,
    endpoints: options.ports.map((port) => ({
      id: `node-${port}`,
      host: "127.0.0.1",
      port,
      weight: 1,
    })),
    unhealthy: [],
    lastResort: [],
    lack: "",
    ...options.overrides,
  };
}

/** As Consul's defaults have them for a listener of that protocol. */
export function httpRules(
  protocol: HttpRules["protocol"],
  rules: Partial<HttpRules> = {},
): HttpRules {
  const made = inboundHttp(protocol);
  if (!made) throw new Error(`${protocol} is no HTTP`);
  return { ...made, ...rules };
}
