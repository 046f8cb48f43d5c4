/**
 * Values of an agent for snapshot tests: a mesh with service `web` and one upstream `db`, and ways to
 * vary it.
 *
 * @module
 */

import type {
  ChainTarget,
  DiscoveryChain,
  Instance,
  Leaf,
  Registration,
  Roots,
  UpstreamDeclaration,
} from "../../../src/consul/mod.ts";
import { type Authority, createAuthority } from "../certs/authority.ts";

export const TRUST_DOMAIN = "11111111-2222-3333-4444-555555555555.consul";
export const NOW_MS = Date.UTC(2026, 10, 21, 7, 30);

export function declaration(
  name: string,
  overrides: Partial<UpstreamDeclaration> = {},
): UpstreamDeclaration {
  return {
    id: `service:default/default/${name}`,
    kind: "service",
    name,
    namespace: "default",
    partition: "default",
    peer: "",
    datacenter: "",
    bind: { kind: "tcp", host: "127.0.0.1", port: 9191 },
    meshGatewayMode: "",
    protocol: "",
    outlier: {},
    ...overrides,
  };
}

export function registration(overrides: Partial<Registration> = {}): Registration {
  return {
    id: "web-1-sidecar-proxy",
    service: "web",
    datacenter: "dc1",
    namespace: "default",
    partition: "default",
    bind: { kind: "tcp", host: "127.0.0.1", port: 21000 },
    local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    mode: "",
    protocol: "tcp",
    localConnectTimeoutMs: 5_000,
    handshakeTimeoutMs: 10_000,
    maxInboundConnections: 0,
    upstreams: [declaration("db")],
    warnings: [],
    ...overrides,
  };
}

export function authority(trustDomain = TRUST_DOMAIN): Authority {
  return createAuthority({ trustDomain, nowMs: NOW_MS });
}

export function leafOf(issuer: Authority, service = "web", nowMs = NOW_MS): Leaf {
  const { certPem, keyPem, uri, notBeforeMs, notAfterMs } = issuer.issueLeaf({ service, nowMs });
  return { certPem, keyPem, uri, serial: "0a", notBeforeMs, notAfterMs };
}

export function rootsOf(...authorities: readonly Authority[]): Roots {
  const roots = authorities.map((issuer, index) => ({
    id: `root-${index}`,
    name: "Consul CA Primary Cert",
    pem: issuer.rootPem,
    active: index === authorities.length - 1,
    externalTrustDomain: issuer.trustDomain,
  }));
  return { activeId: roots.at(-1)?.id ?? "", trustDomain: TRUST_DOMAIN, roots };
}

export function target(service: string, overrides: Partial<ChainTarget> = {}): ChainTarget {
  const datacenter = overrides.datacenter ?? "dc1";
  const subset = overrides.subset ? `${overrides.subset}.` : "";
  const sni = `${subset}${service}.default.${datacenter}.internal.${TRUST_DOMAIN}`;
  return {
    id: `${subset}${service}.default.default.${datacenter}`,
    name: sni,
    service,
    subset: "",
    namespace: "default",
    partition: "default",
    datacenter,
    peer: "",
    meshGatewayMode: "",
    localityMode: "",
    filter: "",
    onlyPassing: false,
    connectTimeoutMs: 5_000,
    external: false,
    sni,
    ...overrides,
  };
}

/** A chain of one resolver: the first target, then failover. */
export function chain(...targets: readonly ChainTarget[]): DiscoveryChain {
  const [primary, ...failover] = targets;
  if (!primary) throw new Error("a chain needs a target");
  const name = `resolver:${primary.id}`;
  return {
    service: primary.service,
    protocol: "tcp",
    customization: "",
    startNode: name,
    nodes: {
      [name]: {
        kind: "resolver",
        name: primary.id,
        target: primary.id,
        connectTimeoutMs: 5_000,
        requestTimeoutMs: 0,
        failoverTargets: failover.map(({ id }) => id),
        balancing: { policy: "" },
      },
    },
    targets: Object.fromEntries(targets.map((each) => [each.id, each])),
  };
}

export function instance(service: string, overrides: Partial<Instance> = {}): Instance {
  return {
    node: "n1",
    serviceId: `${service}-1-sidecar-proxy`,
    service,
    namespace: "default",
    partition: "default",
    datacenter: "dc1",
    host: "127.0.0.1",
    port: 21_001,
    wanHost: "198.51.100.1",
    wanPort: 31_001,
    health: "passing",
    weights: { passing: 1, warning: 1 },
    ...overrides,
  };
}
