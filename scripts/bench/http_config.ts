/**
 * The peers as HTTP sidecars: Envoy as Consul configures it (path normalisation, RBAC by the caller's
 * SPIFFE id, `X-Forwarded-Client-Cert`, request id, router), HAProxy and nginx with as much of that as
 * they have: client certificates that the mesh has signed, and a request id.
 *
 * @module
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bootstrap, cluster, commonTls, TYPE } from "./envoy_config.ts";
import { backendPort } from "./pairs.ts";
import { type Credentials, HOST, type Site } from "./site.ts";

export type HttpProtocol = "http" | "http2" | "grpc";

interface Settings {
  readonly protocol: HttpProtocol;
  readonly port: number;
}

interface OutboundSettings extends Settings {
  /** The inbound's port. */
  readonly target: number;
}

const isHttp2 = (protocol: HttpProtocol) => protocol !== "http";
const alpnOf = (protocol: HttpProtocol) => isHttp2(protocol) ? ["h2", "http/1.1"] : ["http/1.1"];

export function envoyHttpInbound(site: Site, { protocol, port }: Settings): unknown {
  const tls = {
    "@type": `${TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext`,
    require_client_certificate: true,
    common_tls_context: { ...commonTls(site, site.db), alpn_protocols: alpnOf(protocol) },
  };
  const rbac = {
    name: "envoy.filters.http.rbac",
    typed_config: {
      "@type": `${TYPE}.extensions.filters.http.rbac.v3.RBAC`,
      rules: {
        action: "ALLOW",
        policies: {
          "consul-intentions-layer4": {
            permissions: [{ any: true }],
            principals: [{ authenticated: { principal_name: { exact: site.web.uri } } }],
          },
        },
      },
    },
  };
  const forwarding = {
    forward_client_cert_details: "APPEND_FORWARD",
    set_current_client_cert_details: {
      subject: true,
      cert: true,
      chain: true,
      dns: true,
      uri: true,
    },
    normalize_path: true,
  };
  return bootstrap({
    listener: {
      port,
      filters: [
        manager("local", [rbac], protocol === "grpc" ? { normalize_path: true } : forwarding),
      ],
      transport_socket: { name: "envoy.transport_sockets.tls", typed_config: tls },
    },
    cluster: httpCluster("local", backendPort(site, protocol), protocol),
  });
}

export function envoyHttpOutbound(
  site: Site,
  { protocol, port, target }: OutboundSettings,
): unknown {
  const tls = {
    "@type": `${TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
    sni: `db.default.dc1.internal.${site.trustDomain}`,
    common_tls_context: {
      ...commonTls(site, site.web, site.db.uri),
      alpn_protocols: alpnOf(protocol).slice(0, 1),
    },
  };
  return bootstrap({
    listener: { port, filters: [manager("db", [], {})] },
    cluster: {
      ...httpCluster("db", target, protocol),
      transport_socket: { name: "envoy.transport_sockets.tls", typed_config: tls },
    },
  });
}

function manager(cluster: string, filters: readonly unknown[], more: object): unknown {
  const router = {
    name: "envoy.filters.http.router",
    typed_config: { "@type": `${TYPE}.extensions.filters.http.router.v3.Router` },
  };
  return {
    name: "envoy.filters.network.http_connection_manager",
    typed_config: {
      "@type":
        `${TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
      stat_prefix: cluster,
      upgrade_configs: [{ upgrade_type: "websocket" }],
      tracing: { random_sampling: {} },
      route_config: {
        name: cluster,
        virtual_hosts: [{
          name: cluster,
          domains: ["*"],
          routes: [{ match: { prefix: "/" }, route: { cluster, timeout: "0s" } }],
        }],
      },
      http_filters: [...filters, router],
      ...more,
    },
  };
}

function httpCluster(name: string, port: number, protocol: HttpProtocol): object {
  const most = 100_000;
  const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
  return {
    ...cluster(name, port),
    circuit_breakers: {
      thresholds: [{ max_connections: most, max_pending_requests: most, max_requests: most }],
    },
    ...(isHttp2(protocol)
      ? {
        typed_extension_protocol_options: {
          [options]: {
            "@type": `type.googleapis.com/${options}`,
            explicit_http_config: { http2_protocol_options: {} },
          },
        },
      }
      : {}),
  };
}

/** One HAProxy thread. */
export function haproxyInbound(site: Site, { protocol, port }: Settings): string {
  const alpn = alpnOf(protocol).join(",");
  return haproxy(
    `bind ${HOST}:${port} backlog 8192 ssl crt ${bothOf(site, "db", site.db)} ` +
      `ca-file ${site.rootsFile} verify required ssl-min-ver TLSv1.3 alpn ${alpn}`,
    `server app ${HOST}:${backendPort(site, protocol)}${isHttp2(protocol) ? " proto h2" : ""}`,
    "http-request set-header x-forwarded-client-cert Hash=%[ssl_c_sha1,hex]",
  );
}

export function haproxyOutbound(
  site: Site,
  { protocol, port, target }: OutboundSettings,
): string {
  return haproxy(
    `bind ${HOST}:${port} backlog 8192`,
    `server db ${HOST}:${target} ssl crt ${bothOf(site, "web", site.web)} ` +
      `ca-file ${site.rootsFile} verify required ssl-min-ver TLSv1.3 ` +
      `alpn ${alpnOf(protocol)[0]}`,
    "",
  );
}

function haproxy(bind: string, server: string, rule: string): string {
  return `global
  nbthread 1
  maxconn 4000
  tune.h2.max-concurrent-streams 1024
defaults
  mode http
  timeout connect 60s
  timeout client 1h
  timeout server 1h
  http-reuse always
  option http-keep-alive
frontend listener
  ${bind}
  unique-id-format %{+X}o%ci%cp%Ts%rt
  unique-id-header x-request-id
  ${rule}
  default_backend target
backend target
  ${server}
`;
}

/** HAProxy wants certificate and key in one file. */
function bothOf({ directory }: Site, name: string, { certFile, keyFile }: Credentials): string {
  const file = join(directory, `${name}-both.pem`);
  writeFileSync(file, readFileSync(certFile, "utf8") + readFileSync(keyFile, "utf8"));
  return file;
}

/** HTTP/1.1 only: nginx asks no upstream over HTTP/2. */
export function nginxHttpInbound(site: Site, port: number): string {
  const { db } = site;
  return nginx(
    `server ${HOST}:${site.backend.port};`,
    `listen ${HOST}:${port} ssl backlog=8192;
     ssl_protocols TLSv1.3;
     ssl_certificate ${db.certFile};
     ssl_certificate_key ${db.keyFile};
     ssl_client_certificate ${site.rootsFile};
     ssl_verify_client on;`,
    `proxy_set_header X-Forwarded-Client-Cert $ssl_client_escaped_cert;
     proxy_pass http://target;`,
  );
}

export function nginxHttpOutbound(site: Site, port: number, target: number): string {
  const { web } = site;
  return nginx(
    `server ${HOST}:${target};`,
    `listen ${HOST}:${port} backlog=8192;`,
    `proxy_pass https://target;
     proxy_ssl_protocols TLSv1.3;
     proxy_ssl_server_name on;
     proxy_ssl_name db;
     proxy_ssl_certificate ${web.certFile};
     proxy_ssl_certificate_key ${web.keyFile};`,
  );
}

function nginx(server: string, listen: string, pass: string): string {
  return `http {
    access_log off;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    upstream target { ${server} keepalive 256; keepalive_requests 1000000000; }
    server {
      ${listen}
      client_max_body_size 0;
      location / {
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_set_header X-Request-Id $request_id;
        proxy_buffering off;
        ${pass}
      }
    }
  }`;
}
