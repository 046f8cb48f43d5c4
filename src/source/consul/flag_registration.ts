/**
 * The registration that flags alone make (`-service web -upstream db:9191 ...`): the built-in proxy's
 * mode without a registered sidecar. Identity, intentions and everything else still come from the agent.
 *
 * @module
 */

import type { Address } from "../../base/mod.ts";
import type { Registration, UpstreamDeclaration } from "../../consul/mod.ts";

export interface RegistrationFlags {
  readonly proxyId: string;
  readonly service: string;
  /** The local application; absent: nothing inbound. */
  readonly serviceAddress?: Address;
  readonly listen?: { readonly host: string; readonly port: number };
  readonly upstreams: readonly UpstreamFlag[];
}

interface UpstreamFlag {
  readonly name: string;
  readonly type: "service" | "prepared_query";
  readonly host: string;
  readonly port: number;
}

/** The datacenter is left open: it comes from the leaf. */
export function registrationOfFlags(flags: RegistrationFlags): Registration {
  const { proxyId, service, serviceAddress, listen } = flags;
  const inbound = serviceAddress ? listen : undefined;
  return {
    id: proxyId,
    service,
    datacenter: "",
    namespace: "default",
    partition: "default",
    bind: { kind: "tcp", host: inbound?.host ?? "", port: inbound?.port ?? 0 },
    local: serviceAddress ?? { kind: "tcp", host: "127.0.0.1", port: 0 },
    mode: "",
    protocol: "tcp",
    localConnectTimeoutMs: 5_000,
    handshakeTimeoutMs: 10_000,
    maxInboundConnections: 0,
    upstreams: flags.upstreams.map(declarationOf),
    warnings: [],
  };
}

function declarationOf({ name, type, host, port }: UpstreamFlag): UpstreamDeclaration {
  return {
    id: `${type}:default/default/${name}`,
    kind: type,
    name,
    namespace: "default",
    partition: "default",
    peer: "",
    datacenter: "",
    bind: { kind: "tcp", host, port },
    meshGatewayMode: "",
    protocol: "tcp",
    outlier: {},
  };
}
