/**
 * Envoy as Consul would configure it for L4, written down as static configuration: tcp_proxy behind the
 * network RBAC filter, mTLS that demands SPIFFE ids on both sides.
 *
 * @module
 */

import { HOST, type Site } from "./site.ts";

export const TYPE = "type.googleapis.com/envoy";

interface Settings {
  readonly port: number;
  /** Envoy's own default is on. */
  readonly resumption: boolean;
}

export function envoyInbound(site: Site, { port, resumption }: Settings): unknown {
  const rbac = {
    name: "envoy.filters.network.rbac",
    typed_config: {
      "@type": `${TYPE}.extensions.filters.network.rbac.v3.RBAC`,
      stat_prefix: "rbac",
      rules: {
        action: "ALLOW",
        policies: {
          web: {
            permissions: [{ any: true }],
            principals: [{ authenticated: { principal_name: { exact: site.web.uri } } }],
          },
        },
      },
    },
  };
  const tls = {
    "@type": `${TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext`,
    require_client_certificate: true,
    common_tls_context: commonTls(site, site.db),
    ...(resumption
      ? {}
      : { disable_stateless_session_resumption: true, disable_stateful_session_resumption: true }),
  };
  return bootstrap({
    listener: {
      port,
      filters: [rbac, tcpProxy("local")],
      transport_socket: { name: "envoy.transport_sockets.tls", typed_config: tls },
    },
    cluster: cluster("local", site.backend.port),
  });
}

export function envoyOutbound(
  site: Site,
  { port, target, resumption }: Settings & { readonly target: number },
): unknown {
  const tls = {
    "@type": `${TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
    sni: `db.default.dc1.internal.${site.trustDomain}`,
    common_tls_context: commonTls(site, site.web, site.db.uri),
    ...(resumption ? {} : { max_session_keys: 0 }),
  };
  return bootstrap({
    listener: { port, filters: [tcpProxy("db")] },
    cluster: {
      ...cluster("db", target),
      transport_socket: { name: "envoy.transport_sockets.tls", typed_config: tls },
    },
  });
}

export function bootstrap(
  { listener, cluster }: {
    readonly listener: {
      readonly port: number;
      readonly filters: unknown;
      readonly transport_socket?: unknown;
    };
    readonly cluster: unknown;
  },
): unknown {
  const { port, ...chain } = listener;
  return {
    static_resources: {
      listeners: [{
        name: "listener",
        address: addressOf(port),
        filter_chains: [chain],
        tcp_backlog_size: 8192,
      }],
      clusters: [cluster],
    },
  };
}

function tcpProxy(cluster: string): unknown {
  return {
    name: "envoy.filters.network.tcp_proxy",
    typed_config: {
      "@type": `${TYPE}.extensions.filters.network.tcp_proxy.v3.TcpProxy`,
      stat_prefix: cluster,
      cluster,
    },
  };
}

export function cluster(name: string, port: number): object {
  const most = 100_000;
  return {
    name,
    connect_timeout: "5s",
    type: "STATIC",
    circuit_breakers: { thresholds: [{ max_connections: most, max_pending_requests: most }] },
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: addressOf(port) } }] }],
    },
  };
}

function addressOf(port: number): unknown {
  return { socket_address: { address: HOST, port_value: port } };
}

export function commonTls(
  site: Site,
  own: { readonly certFile: string; readonly keyFile: string },
  uri?: string,
): object {
  const san = { san_type: "URI", matcher: { exact: uri } };
  return {
    tls_params: {
      tls_minimum_protocol_version: "TLSv1_3",
      tls_maximum_protocol_version: "TLSv1_3",
    },
    tls_certificates: [{
      certificate_chain: { filename: own.certFile },
      private_key: { filename: own.keyFile },
    }],
    validation_context: {
      trusted_ca: { filename: site.rootsFile },
      ...(uri === undefined ? {} : { match_typed_subject_alt_names: [san] }),
    },
  };
}
