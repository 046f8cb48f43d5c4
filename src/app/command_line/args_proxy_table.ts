/**
 * Every flag of `postern proxy`, with its help. Where `consul connect proxy` has the same, name and
 * variable are the same, so that a command line or a unit file can be taken over as it is.
 *
 * @module
 */

import type { FlagGroup } from "./args_flags.ts";
import { SERVERS } from "./args_servers.ts";
import { LOG_FLAGS } from "./args_tables.ts";

const WHAT_TO_RUN: FlagGroup = {
  title: "What to stand for (one of these)",
  flags: [
    {
      name: "sidecar-for",
      kind: "text",
      value: "ID",
      env: "CONNECT_SIDECAR_FOR",
      help: "Run the one sidecar that is registered for this service id.",
    },
    {
      name: "proxy-id",
      kind: "text",
      value: "ID",
      env: "CONNECT_PROXY_ID",
      help: "Run this registered proxy or ingress gateway. Counts before -sidecar-for.",
    },
    {
      name: "gateway",
      kind: "text",
      value: "ingress",
      help: "Run the one ingress gateway that is registered, of that name where -service is given.",
    },
    {
      name: "config",
      kind: "text",
      value: "FILE",
      help: "Run from a JSON file with credentials, upstreams and intentions, without Consul.",
    },
  ],
};

const FLAG_MODE: FlagGroup = {
  title: "Without a registration",
  flags: [
    {
      name: "service",
      kind: "text",
      value: "NAME",
      help: "Service to stand for; its identity comes from Consul, the rest from these flags.",
    },
    {
      name: "service-addr",
      kind: "text",
      value: "ADDRESS",
      help: "Local application, host:port, that gets the inbound connections.",
    },
    {
      name: "listen",
      kind: "text",
      value: "ADDRESS",
      help: "Where other sidecars connect, [host]:port. Needs -service-addr.",
    },
    {
      name: "upstream",
      kind: "list",
      value: "NAME:PORT",
      help: "Destination and the local port for it: name[.type]:[address:]port. The type is " +
        "service (default) or query, a prepared query. May be repeated; the last one of a name counts.",
    },
    {
      name: "register",
      kind: "switch",
      help: "Register this proxy in the catalog. Needs -listen.",
    },
    {
      name: "register-id",
      kind: "text",
      value: "SUFFIX",
      help: "Suffix of the registered id, for several of the same service on one agent or node.",
    },
  ],
};

const AGENT: FlagGroup = {
  title: "The Consul agent",
  flags: [
    {
      name: "http-addr",
      kind: "text",
      value: "ADDRESS",
      env: "CONSUL_HTTP_ADDR",
      byDefault: "127.0.0.1:8500",
      help: "The agent: host:port, http://, https:// or unix:///path.",
    },
    {
      name: "token",
      kind: "text",
      value: "TOKEN",
      env: "CONSUL_HTTP_TOKEN",
      help: "ACL token. Everyone on this machine can read it here; prefer -token-file.",
    },
    {
      name: "token-file",
      kind: "text",
      value: "FILE",
      env: "CONSUL_HTTP_TOKEN_FILE",
      help: "File with the ACL token; read again when it changes.",
    },
    {
      name: "ca-file",
      kind: "text",
      value: "FILE",
      env: "CONSUL_CACERT",
      help: "CA certificates that may have signed the agent's or the servers'.",
    },
    {
      name: "ca-path",
      kind: "text",
      value: "DIR",
      env: "CONSUL_CAPATH",
      help: "The same, a directory of files.",
    },
    {
      name: "client-cert",
      kind: "text",
      value: "FILE",
      env: "CONSUL_CLIENT_CERT",
      help: "Certificate to show to the agent or the servers.",
    },
    {
      name: "client-key",
      kind: "text",
      value: "FILE",
      env: "CONSUL_CLIENT_KEY",
      help: "Key of that certificate.",
    },
    {
      name: "tls-server-name",
      kind: "text",
      value: "NAME",
      env: "CONSUL_TLS_SERVER_NAME",
      help: "Name that the certificate of the agent or the servers must have.",
    },
    {
      name: "datacenter",
      kind: "text",
      value: "NAME",
      byDefault: "the agent's",
      help: "Datacenter to ask.",
    },
    { name: "stale", kind: "switch", help: "Let any server answer reads, not only the leader." },
    {
      name: "namespace",
      kind: "text",
      value: "NAME",
      env: "CONSUL_NAMESPACE",
      help: "Namespace of the service (Consul Enterprise).",
    },
    {
      name: "partition",
      kind: "text",
      value: "NAME",
      env: "CONSUL_PARTITION",
      help: "Partition of the service (Consul Enterprise).",
    },
    {
      name: "agent-connections",
      kind: "text",
      value: "N",
      byDefault: "120",
      help:
        "Most connections to the agent at once; it allows 200 for all of a host. More than 12 " +
        "only while the agent has room.",
    },
    {
      name: "prepared-query-interval",
      kind: "text",
      value: "DURATION",
      byDefault: "10s",
      help: "How often to run the prepared query of an upstream.",
    },
  ],
};

const TRUST: FlagGroup = {
  title: "Trust",
  flags: [
    {
      name: "authorize",
      kind: "text",
      value: "HOW",
      byDefault: "match",
      help: "match: by the intentions, which are watched. both: the agent's authorize call must " +
        "allow each connection, too.",
    },
    {
      name: "strict-spiffe-chain",
      kind: "switch",
      help: "CA certificates in a peer's chain must name the trust domain, too.",
    },
    {
      name: "state-dir",
      kind: "text",
      value: "DIR",
      help:
        "Keep the last good state here (it holds private keys; mode 0600), so that a restart while " +
        "Consul is away serves until the certificate expires. With -config: the secrets of SDS " +
        "servers and Workload APIs.",
    },
  ],
};

const RUNNING: FlagGroup = {
  title: "Running",
  flags: [
    {
      name: "admin-bind",
      kind: "text",
      value: "ADDRESS",
      byDefault: "127.0.0.1:19000 or the next free port",
      help: "Admin server, host:port, or off. An address given here must be free.",
    },
    {
      name: "admin-token-file",
      kind: "text",
      value: "FILE",
      help:
        "File with a token. A client that sends it (Authorization: Bearer) may drain, end and set " +
        "the log level through the admin server, from any address; no other client may. Without " +
        "this flag, clients on this machine may.",
    },
    {
      name: "ready",
      kind: "text",
      value: "HOW",
      byDefault: "all",
      help: "What /ready asks for. all: every listener that ever could carry traffic can, and at " +
        "least one. any: at least one.",
    },
    {
      name: "drain-timeout",
      kind: "text",
      value: "DURATION",
      byDefault: "8s",
      help: "How long open connections may go on after SIGTERM. A second SIGTERM ends them.",
    },
    {
      name: "settle-time",
      kind: "text",
      value: "DURATION",
      byDefault: "2s",
      help: "How long new connections are still accepted after SIGTERM, until callers have heard " +
        "from Consul that this instance leaves. Part of -drain-timeout, and by default at most a " +
        "quarter of it.",
    },
    {
      name: "idle-timeout",
      kind: "text",
      value: "DURATION",
      byDefault: "1h",
      help: "End a connection with no byte either way for this long; 0 is never.",
    },
    {
      name: "max-connection-lifetime",
      kind: "text",
      value: "DURATION",
      byDefault: "0",
      help: "End every connection after this long; 0 is never.",
    },
    {
      name: "max-connections",
      kind: "text",
      value: "N",
      byDefault: "65536",
      help: "Connections accepted at once over all listeners.",
    },
    {
      name: "workers",
      kind: "text",
      value: "N",
      byDefault: "1",
      help: "Threads that carry traffic; 0 carries it in the main thread.",
    },
    {
      name: "watch-plugins",
      kind: "switch",
      help: "Read the files of plugins again when one of them changes, as SIGHUP does.",
    },
    ...LOG_FLAGS,
    {
      name: "pprof-addr",
      kind: "text",
      value: "ADDRESS",
      help: "Taken so that command lines of Consul's proxy work; nothing is served there.",
    },
    { name: "pprof-timeout", kind: "text", value: "DURATION", help: "The same." },
  ],
};

export const PROXY_FLAGS: readonly FlagGroup[] = [
  WHAT_TO_RUN,
  FLAG_MODE,
  AGENT,
  SERVERS,
  TRUST,
  RUNNING,
];
