/** Why the agent or a server could not be reached, in words, with what to change. @module */

import type { Address } from "../../base/mod.ts";
import type { DialFailure, ResetReason } from "../../http/mod.ts";
import { SPEAKS_NO_TLS } from "../../net/mod.ts";
import type { AnsweringPeer } from "./carrier.ts";
import type { ConsulTls } from "./tls_credentials.ts";

interface AskedPlace {
  readonly address: Address;
  readonly peer: AnsweringPeer;
  readonly tls: Pick<ConsulTls, "explain"> | null;
}

/** The flag for the address. */
export const ADDRESS_FLAG: Readonly<Record<AnsweringPeer, string>> = {
  agent: "-http-addr (CONSUL_HTTP_ADDR)",
  server: "-http-port (POSTERN_HTTP_PORT)",
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

const NO_AGENT_TLS =
  "the port does not speak TLS; give the agent's HTTPS port, 8501 unless configured otherwise, or, " +
  "where it has none, write http:// in -http-addr (CONSUL_HTTP_ADDR) and leave out CONSUL_HTTP_SSL";

/** Fits after "Cannot reach the Consul agent at ...: ". */
export function dialWords({ stage, reason }: DialFailure, place: AskedPlace): string {
  const { peer, tls } = place;
  switch (stage) {
    case "connect": {
      const [, words = reason, code] = /^(.*) \((E[A-Z]+)\)$/.exec(reason) ?? [];
      if (code !== "ECONNREFUSED") return words;
      return peer === "agent"
        ? "connection refused; is the agent running, and is this its address (-http-addr or " +
          "CONSUL_HTTP_ADDR)?"
        : `connection refused; ${portWanted(place)}`;
    }
    case "handshake":
      if (reason === SPEAKS_NO_TLS) {
        return peer === "agent" ? NO_AGENT_TLS : `${reason}; ${portWanted(place)}`;
      }
      return otherWords(reason, place);
    case "http":
      return tls?.explain(reason) ?? reason;
    case "credentials":
    case "peer":
      return reason;
  }
}

/** Words for a connection that broke before the reply. */
export function brokenWords(reason: ResetReason, detail: string, place: AskedPlace): string {
  // The codec names what was received in place of a response.
  const isNoHttp = reason === "protocol" && detail.startsWith("answers ");
  if (!isNoHttp) return reason === "connection" ? otherWords(detail, place) : detail;
  const words = otherPort(place);
  return words ?? `what answers does not speak HTTP/1; is this the ${place.peer}'s gRPC port? ` +
      portWanted({ ...place, tls: null });
}

function otherWords(reason: string, place: AskedPlace): string {
  const explained = place.tls?.explain(reason) ?? reason;
  return explained === reason ? otherPort(place) ?? reason : explained;
}

function otherPort({ address, peer }: AskedPlace): string | undefined {
  const use = address.kind === "tcp" ? OTHER_PORTS[address.port] : undefined;
  if (use === undefined || address.kind !== "tcp") return undefined;
  return `${address.port} is Consul's port for ${use}; ${
    ADDRESS_FLAG[peer]
  } wants that of its HTTP ` +
    "API, 8500 or 8501 (HTTPS) unless configured otherwise";
}

export function portWanted({ peer, tls }: Pick<AskedPlace, "peer" | "tls">): string {
  const api = tls ? "HTTPS API, 8501" : "HTTP API, 8500";
  return `${ADDRESS_FLAG[peer]} wants that of its ${api} unless configured otherwise`;
}
