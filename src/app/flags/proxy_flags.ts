/** Every flag of `postern proxy`, with the names and variables of `consul connect proxy`. @module */

import { readFlagTable } from "./parse_flags.ts";

/** Most connections accepted at once; more than most need, so that fewer are no trouble yet. */
export const DEFAULT_CONNECTIONS = 65_536;

/** Rows for the tables of several commands. */
export const LOG_FLAGS = `\
  -log-level trace|debug|info|warn|error (default: info)
      Least level of log lines, in upper or lower case.
  -log-json
      Write log lines as JSON objects.`;

export const PROXY_FLAGS = readFlagTable(`
What to stand for (one of these)
  -sidecar-for ID [$CONNECT_SIDECAR_FOR]
      Run the one sidecar that is registered for this service id.
  -proxy-id ID [$CONNECT_PROXY_ID]
      Run this registered proxy or ingress gateway. Counts before -sidecar-for.
  -gateway ingress
      Run the ingress gateway that is registered with the agent; with -service, the one of that name.
  -config FILE
      Run from a file with credentials, upstreams and intentions, without Consul: JSON, YAML, or a
      directory of such files.
Without a registration
  -service NAME
      Service to stand for; its identity comes from Consul, the rest from these flags.
  -service-addr ADDRESS
      Local application, host:port, that gets the inbound connections.
  -listen ADDRESS
      Where other sidecars connect, [host]:port. Needs -service-addr.
  -upstream NAME:PORT ...
      Destination and the local port for it: name[.type]:[address:]port. The type is service
      (default) or query, a prepared query. May be repeated; the last one of a name counts.
  -register
      Register this proxy in the catalog. Needs -listen.
  -register-id SUFFIX
      Suffix of the registered id, for several of the same service on one agent or node.
The Consul agent
  -http-addr ADDRESS [$CONSUL_HTTP_ADDR] (default: 127.0.0.1:8500)
      The agent: host:port, http://, https:// or unix:///path.
  -token TOKEN [$CONSUL_HTTP_TOKEN]
      ACL token. Everyone on this machine can read it here; prefer -token-file.
  -token-file FILE [$CONSUL_HTTP_TOKEN_FILE]
      File with the ACL token; read again when it changes.
  -ca-file FILE [$CONSUL_CACERT]
      CA certificates that may have signed the agent's or the servers'.
  -ca-path DIR [$CONSUL_CAPATH]
      The same, a directory of files.
  -client-cert FILE [$CONSUL_CLIENT_CERT]
      Certificate to show to the agent or the servers.
  -client-key FILE [$CONSUL_CLIENT_KEY]
      Key of that certificate.
  -tls-server-name NAME [$CONSUL_TLS_SERVER_NAME]
      Name that the certificate of the agent or the servers must have.
  -datacenter NAME (default: the agent's)
      Datacenter to ask.
  -stale
      Let any server answer reads, not only the leader.
  -namespace NAME [$CONSUL_NAMESPACE]
      Namespace of the service (Consul Enterprise).
  -partition NAME [$CONSUL_PARTITION]
      Partition of the service (Consul Enterprise).
  -agent-connections N (default: 120)
      Most connections to the agent at once; it allows 200 for all of a host. More than 12 only
      while the agent has room.
  -prepared-query-interval DURATION (default: 10s)
      How often to run the prepared query of an upstream.
Without an agent: Consul's servers
  -servers ADDRESS,...
      Ask Consul's servers, not an agent: addresses, DNS names (of each all addresses), or
      exec=COMMAND that prints addresses. Any of them will do; the others are learned from it.
  -node NAME
      Node in the catalog that the proxy is registered on. Needed with -servers.
  -node-address IP (default: the address in -listen)
      With -register: the address at which others reach this host; a node that is created gets it, too.
  -check-http PATH
      With -register: the application is well while it answers this path with 2xx; without, while it
      takes connections.
  -grpc-port PORT (default: 8503, without TLS 8502)
      Port of the servers for gRPC.
  -http-port PORT [$POSTERN_HTTP_PORT] (default: 8501, without TLS 8500)
      Port of the servers for the HTTP API.
  -tls-disabled
      Talk to the servers in plain text; who reads it has the token.
  -server-watch-disabled
      Use only what -servers gives, as behind a load balancer.
  -login-auth-method NAME
      Log in with this auth method for a token, and log out at the end.
  -login-bearer-token-file FILE
      File with the bearer token to log in with; read for each login.
  -login-bearer-token TOKEN
      The bearer token itself. Everyone on this machine can read it here.
  -login-meta KEY=VALUE ...
      What the token's description says. May be repeated.
  -login-datacenter NAME
      Datacenter to log in to.
  -login-namespace NAME
      Namespace of the auth method (Consul Enterprise).
  -login-partition NAME
      Partition of the auth method (Consul Enterprise).
Trust
  -authorize match|both (default: match)
      match: by the intentions, which are watched. both: the agent's authorize call must allow each
      connection, too.
  -strict-spiffe-chain
      CA certificates in a peer's chain must name the trust domain, too.
  -state-dir DIR
      Keep the last good state here (it holds private keys; mode 0600), so that a restart while
      Consul is away serves until the certificate expires. With -config: the secrets of SDS servers
      and Workload APIs. The last events are kept here as well.
Running
  -admin-bind ADDRESS (default: 127.0.0.1:19000 or the next free port)
      Admin server, host:port, or off. An address given here must be free.
  -admin-peers ADDRESS ... (default: those that answer on ports 19000 to 19100 of 127.0.0.1)
      Admin servers of other proxies, [host]:port, that the page at / shows too; several are
      separated by commas. They are asked only while the page is open.
  -admin-token-file FILE
      File with a token. A client that sends it (Authorization: Bearer) may drain, end and set the
      log level through the admin server, from any address; no other client may. Without this flag,
      clients on this machine may.
  -ready all|any (default: all)
      What /ready asks for. all: every listener that ever could carry traffic can, and at least one.
      any: at least one.
  -drain-timeout DURATION (default: 8s)
      How long open connections may go on after SIGTERM. A second SIGTERM ends them.
  -settle-time DURATION (default: 2s)
      How long new connections are still accepted after SIGTERM, until callers have heard from
      Consul that this instance leaves. Part of -drain-timeout, and by default at most a quarter of
      it.
  -idle-timeout DURATION (default: 1h)
      End a connection with no byte either way for this long; 0 is never.
  -max-connection-lifetime DURATION (default: 0)
      End every connection after this long; 0 is never.
  -max-connections N (default: ${DEFAULT_CONNECTIONS})
      Connections accepted at once over all listeners.
  -workers N (default: 1)
      Threads that carry traffic; 0 carries it in the main thread.
  -trace-to URL
      Send a span of each sampled request to this collector by OTLP over HTTP, such as
      http://127.0.0.1:4318; Zipkin's form where the address ends in /api/v2/spans. off: no spans.
  -trace-sample SHARE (default: 100%)
      Share of the requests without a decision of their caller that are sampled, such as 1%.
  -trace-connections
      Send a span of each connection that carries bytes, too.
  -metrics-to URL
      Send metrics to this collector by OTLP over HTTP, such as http://127.0.0.1:4318. off: none.
  -metrics-interval DURATION
      Send metrics once in this time, by default every 60s.
  -logs-to URL
      Send log lines to this collector by OTLP over HTTP, besides standard error. off: none.
  -logs-access
      Send a record of each request and connection to the collector of -logs-to, too.
  -watch-plugins
      Read the files of plugins again when one of them changes, as SIGHUP does.
${LOG_FLAGS}
  -syslog PATH
      Send the log to the syslog daemon at this socket, such as /dev/log, in place of standard
      error. Linux, with the executable.
  -pprof-addr ADDRESS
      Taken so that command lines of Consul's proxy work; nothing is served there.
  -pprof-timeout DURATION
      The same.
`);
