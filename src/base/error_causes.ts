/**
 * Cause and cure of every error code, for people: `postern explain CODE` and docs/codes.md. Apart from the
 * table of codes, so that no data worker loads the texts.
 *
 * @module
 */

import type { ErrorCode } from "./errors.ts";

export interface ErrorCause {
  readonly cause: string;
  readonly cure: string;
}

export const ERROR_CAUSES: Readonly<Record<ErrorCode, ErrorCause>> = {
  overloaded: {
    cause:
      "A limit of this proxy is reached: connections, open files, or bytes held for slow peers.",
    cure: "Raise -max-connections and the limit of open files, or start another instance.",
  },
  handshake_failed: {
    cause:
      "The TLS handshake of a caller failed: it is no sidecar, speaks plain text, or shares no TLS version with this proxy.",
    cure:
      "Read the reason and the caller's address in the log line; let the caller connect through its sidecar.",
  },
  closed_early: {
    cause: "The caller connected and left before the handshake was done, as TCP health checks do.",
    cure: "Nothing to do for health checks; otherwise look at the caller's connect timeout.",
  },
  handshake_timed_out: {
    cause: "The caller connected and did not finish the TLS handshake in time.",
    cure:
      "Look for packet loss, a caller that is overloaded, or one that speaks another protocol first.",
  },
  handshake_crowded_out: {
    cause: "Too many handshakes were open at once, and the oldest one made room.",
    cure: "Find who opens connections without finishing handshakes; give the proxy more workers.",
  },
  identity_invalid: {
    cause:
      "The caller's certificate has no usable identity: no SPIFFE URI, another trust domain, not valid now, or not for clients.",
    cure: "Compare the caller's /certs with the trust domain here; check the clocks of both hosts.",
  },
  chain_untrusted: {
    cause: "No root in force signed the caller's certificate, or the certificate has expired.",
    cure:
      "Compare the roots in /certs of both sides; after a change of CA wait for the caller's new leaf or restart its sidecar.",
  },
  intention_denied: {
    cause: "An intention, or the default policy, denies this caller. The log line has the rule.",
    cure:
      "Run postern explain -inbound -source SERVICE beside the called service; allow the caller by an intention (service-intentions) if it should pass.",
  },
  source_denied: {
    cause:
      "The listener is not for callers from that address, as an exposed path for Consul's checks alone.",
    cure: "Call through the public listener, or add the address to the addresses that may call.",
  },
  authorize_failed: {
    cause: "With -authorize both the agent must allow each connection, and it gave no answer.",
    cure:
      "Check that the agent answers and that the token may call authorize; or use -authorize match.",
  },
  not_ready: {
    cause:
      "The proxy has no certificate, roots or intentions yet, or a secret of the listener is missing.",
    cure: "Read /ready: it names what the proxy waits for.",
  },
  request_invalid: {
    cause: "The caller sent a request that is malformed, or whose path cannot be normalized.",
    cure: "Correct the client; the reason is in the log line.",
  },
  request_too_large: {
    cause: "The head or body of the request is larger than its limit.",
    cure:
      "Send less, or raise the limit of the head (max_request_headers_kb) or of the plugin that limits bodies.",
  },
  downstream_flooded: {
    cause: "The caller sent too many frames that cause work without data, as attacks on HTTP/2 do.",
    cure: "Update or block the client; the log line has its address and identity.",
  },
  request_timed_out: {
    cause: "The caller did not complete its request in time.",
    cure: "Look at the caller's network and at how it writes the body.",
  },
  route_not_found: {
    cause: "No route, host or exposed path matches the request.",
    cure:
      "Run postern explain with the URL; compare service-router, hosts of the ingress and the path.",
  },
  target_not_found: {
    cause:
      "A plugin chose a target or upstream that the proxy does not have. The reason names both.",
    cure:
      "Correct the name; a subset needs a split (of any weight), a route or a failover that leads to it.",
  },
  no_endpoint: {
    cause:
      "The target has no instance that can be used: none is registered, or none passes its checks.",
    cure:
      "Look at /clusters and consul catalog for the service; repair the failing checks or configure failover.",
  },
  limit_reached: {
    cause:
      "A limit of the upstream is reached: open connections, waiting connections, or open requests.",
    cure:
      "Find what is slow (/traffic); raise Limits of the upstream in service-defaults if the service can take more.",
  },
  endpoint_refused: {
    cause:
      "The instance's address refused the connection: its sidecar is not running, or listens elsewhere.",
    cure:
      "Start the sidecar of the called service; compare its registered address and port with its listener.",
  },
  endpoint_untrusted: {
    cause: "The server at the instance's address did not prove an identity of the target.",
    cure:
      "Look for another service on that address and port, old registrations, or roots that differ (/certs of both sides).",
  },
  endpoint_timed_out: {
    cause: "The instance did not answer the connection attempt or the handshake in time.",
    cure:
      "Check the network and firewalls between the hosts; raise ConnectTimeout of the service-resolver for far targets.",
  },
  local_refused: {
    cause: "The local application refused the connection: it is not running, or listens elsewhere.",
    cure: "Start the application; compare LocalServicePort or -service-addr with its address.",
  },
  local_timed_out: {
    cause: "The local application did not accept the connection in time.",
    cure:
      "The application is overloaded or hangs; look at its backlog, or raise local_connect_timeout_ms.",
  },
  downstream_reset: {
    cause: "The caller broke the connection before the end.",
    cure: "Look at timeouts and crashes of the caller; the log line has bytes and duration.",
  },
  endpoint_reset: {
    cause: "The instance broke the connection before the end.",
    cure: "Look at crashes, restarts and timeouts of the called application.",
  },
  refused_by_peer: {
    cause:
      "The peer finished the handshake and ended the connection without a byte. It cannot say why: probably an intention denies this service, it does not trust the certificate, its application is down, or it is full.",
    cure:
      "Run postern explain -inbound -source SERVICE on the host of the called service, with the name of this one; the log line of its sidecar has the reason.",
  },
  response_invalid: {
    cause: "The instance sent something that is no valid response.",
    cure: "Check the protocol of the service in service-defaults; correct the application.",
  },
  response_reset: {
    cause: "The instance reset the stream of a request.",
    cure: "Look at the called application; a gRPC or HTTP/2 server says so on purpose.",
  },
  response_timed_out: {
    cause: "The response was not complete within the request timeout.",
    cure:
      "Find the slow part (/traffic); raise RequestTimeout of the route or resolver if the time is needed.",
  },
  idle_timed_out: {
    cause: "No byte went in either direction for the idle timeout.",
    cure: "Send keep-alives, or raise -idle-timeout or the idle timeout of the route.",
  },
  lifetime_ended: {
    cause: "The connection was open for the longest time that is allowed.",
    cure: "Clients should connect again; change -max-connection-lifetime if it is too short.",
  },
  drained: {
    cause:
      "The proxy was stopping, and the connection was still open when the drain time was over.",
    cure: "Raise -drain-timeout, or let clients reconnect sooner.",
  },
  closed: {
    cause: "The proxy, or the part of it that served, is stopping.",
    cure: "Nothing to do during a restart.",
  },
  plugin_denied: {
    cause: "A plugin refused the request or connection. The log line names it.",
    cure: "Look at the plugin's configuration, and at the service that it asks, such as ext_authz.",
  },
  rate_limited: {
    cause: "A rate limit refused the request.",
    cure: "Let the client slow down; raise RateLimits in service-defaults or the plugin's limit.",
  },
  unauthenticated: {
    cause: "The request has no valid token (JWT), password or key where one is required.",
    cure:
      "The response and the log line say what is wrong: missing, unknown; for a token expired, another issuer or audience.",
  },
  plugin_failed: {
    cause:
      "A plugin threw, took too long or broke its contract. The log line names plugin and hook.",
    cure: "See /plugins for the last failure; correct the plugin, or set its onFailure to skip.",
  },
  agent_unreachable: {
    cause: "The Consul agent or the servers cannot be reached. The last good state stays in force.",
    cure: "Start the agent; check -http-addr or -servers, TLS settings and firewalls.",
  },
  agent_forbidden: {
    cause: "The ACL token lacks a right. The message names it.",
    cure: "Give the token the right; a service identity has those of a sidecar.",
  },
  agent_not_found: {
    cause: "Consul does not know the proxy or the service.",
    cure: "Register the service with its sidecar; compare the id and the agent's address.",
  },
  agent_overloaded: {
    cause:
      "The agent refuses requests for load, often because of its 200 connections per client address.",
    cure: "Lower -agent-connections, or raise limits.http_max_conns_per_client of the agent.",
  },
  agent_failed: {
    cause: "The agent answered with an error, as without a leader.",
    cure: "Look at the agent's log and consul operator raft list-peers.",
  },
  agent_reply_invalid: {
    cause: "An answer of the agent cannot be read, or is about something else.",
    cure: "Check what listens at the agent's address, and its version.",
  },
  cluster_changed: {
    cause: "Another cluster answers: its trust domain differs. Its answers are not used.",
    cure:
      "Correct the agent's address; if the cluster was replaced, restart the proxy without the stored state.",
  },
  credentials_invalid: {
    cause: "A certificate, key or root cannot be used: it does not parse, match or reach a root.",
    cure: "The message names file or secret and the fault; the last good value stays in use.",
  },
  snapshot_invalid: {
    cause: "A new configuration cannot be used, or a stored one cannot be read. The old one stays.",
    cure: "The message names the part; correct it in Consul or in the file.",
  },
  usage: {
    cause: "The command line is wrong.",
    cure: "Run the command with -help.",
  },
  config_invalid: {
    cause: "A configuration file or flag has a wrong value.",
    cure: "The message names the place; postern check FILE lists all faults.",
  },
  unsupported: {
    cause: "The configuration asks for something that Postern does not do.",
    cure: "See docs/differences.md and docs/configuration-keys.md for what replaces it.",
  },
  listen_failed: {
    cause: "An address cannot be bound: it is in use, is not of this host, or needs a right.",
    cure: "Find the other program (ss -ltnp), or give another address.",
  },
  internal: {
    cause: "A fault inside Postern.",
    cure: "Please report it with the log line; a restart may help.",
  },
};
