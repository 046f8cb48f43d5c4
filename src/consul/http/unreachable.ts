/**
 * Why the agent or a server could not be reached, in words, with what to change: above all where an
 * address is that of another of its ports.
 *
 * @module
 */

import { type Address, messageOf } from "../../base/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../flag_names.ts";
import type { AnsweringPeer } from "./carrier.ts";
import type { TransportTls } from "./files.ts";
import { explainAlert } from "./tls_trouble.ts";

const WANTED: Readonly<Record<AnsweringPeer, string>> = {
  agent: "-http-addr (CONSUL_HTTP_ADDR) wants that of its HTTP API",
  server: "-http-port (POSTERN_HTTP_PORT) wants that of its HTTP API",
};

const REASONS: Readonly<Record<string, (peer: AnsweringPeer) => string>> = {
  ECONNREFUSED: (peer) =>
    peer === "agent"
      ? "connection refused; is the agent running, and is this its address (-http-addr or " +
        "CONSUL_HTTP_ADDR)?"
      : `connection refused; ${WANTED[peer]}, 8500 unless configured otherwise`,
  ENOENT: () => "there is no such socket",
  ECONNRESET: () => "the connection was reset",
  ENOTFOUND: () => "the host name cannot be resolved",
  EPROTO: (peer) => `TLS failed; does the ${peer} speak HTTPS on this port?`,
  // Servers are asked over TLS by HTTP/2, which has words of its own.
  ERR_SSL_WRONG_VERSION_NUMBER: () =>
    "the port does not speak TLS; give the agent's HTTPS port, 8501 unless configured otherwise, or, " +
    "where it has none, write http:// in -http-addr (CONSUL_HTTP_ADDR) and leave out CONSUL_HTTP_SSL",
  // What Node's parser says of the first bytes of HTTP/2.
  HPE_INVALID_CONSTANT: (peer) =>
    `what answers does not speak HTTP/1; is this the ${peer}'s gRPC port? ${WANTED[peer]}, 8500 ` +
    "unless configured otherwise",
};

/** Consul's other ports, unless configured otherwise: some just hang up. */
const OTHER_PORTS: Readonly<Record<number, string>> = {
  8300: "calls between servers",
  8301: "gossip",
  8302: "gossip between datacenters",
  8502: "gRPC",
  8503: "gRPC over TLS",
  8600: "DNS",
};
const HUNG_UP: ReadonlySet<unknown> = new Set(["ECONNRESET", "HPE_INVALID_CONSTANT"]);

const HINTS: readonly (readonly [RegExp, (names: FlagNames, peer: AnsweringPeer) => string])[] = [
  [
    /altnames/,
    ({ serverName }, peer) => `say with ${serverName} which name the ${peer}'s certificate is for`,
  ],
  [
    /unable to (verify|get)|self.signed|unknown ?issuer/i,
    ({ ca }, peer) => `say with ${ca} which CA has signed the ${peer}'s certificate`,
  ],
];

/** Fits after "Cannot reach the Consul agent at ...: ". */
export function reasonOf(
  error: unknown,
  { address, tls, peer = "agent" }: {
    readonly address: Address;
    readonly tls: TransportTls | null;
    readonly peer?: AnsweringPeer;
  },
): string {
  const code = (error as { code?: unknown } | null)?.code;
  const use = address.kind === "tcp" && HUNG_UP.has(code) ? OTHER_PORTS[address.port] : undefined;
  if (use && address.kind === "tcp") {
    return `${address.port} is Consul's port for ${use}; ${WANTED[peer]}, 8500 or 8501 (HTTPS) ` +
      "unless configured otherwise";
  }
  const known = typeof code === "string" ? REASONS[code]?.(peer) : undefined;
  if (known) return known;
  const text = messageOf(error) || String(code ?? "the connection failed");
  const alert = tls && explainAlert(text, tls);
  if (alert) return alert;
  const hint = HINTS.find(([pattern]) => pattern.test(text))?.[1];
  return hint ? `${text}; ${hint(tls?.names ?? PROXY_FLAGS, peer)}` : text;
}
