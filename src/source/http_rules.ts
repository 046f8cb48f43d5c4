/**
 * Rules of listeners that understand HTTP, with the defaults that Consul gives Envoy, but for those of
 * ours: no request timeout where none is configured.
 *
 * @module
 */

import type { PathRules } from "../http/mod.ts";
import type { HttpRules, Protocol } from "../snapshot/mod.ts";

/** Envoy's. */
const STREAM_IDLE_TIMEOUT_MS = 300_000;

/** What callers of the service wrote is normalised, since rules are about paths. */
const INCOMING_PATH: PathRules = {
  normalize: true,
  mergeSlashes: false,
  escapedSlashes: "keep",
  underscores: "allow",
};

/** Where the own application calls: the other side normalises. */
const OUTGOING_PATH: PathRules = { ...INCOMING_PATH, normalize: false };

/** Of a listener for callers of the service; `null`: its protocol is no HTTP. */
export function inboundHttp(protocol: Protocol): HttpRules | null {
  if (protocol === "tcp") return null;
  return {
    protocol,
    path: INCOMING_PATH,
    // As Consul has it: gRPC services are told nothing of the caller.
    sanitizeForwardedClientCert: protocol === "grpc",
    requestTimeoutMs: 0,
    streamIdleTimeoutMs: STREAM_IDLE_TIMEOUT_MS,
    showDenials: false,
  };
}

/** Of an upstream's listener; `null`: its protocol is no HTTP. */
export function outboundHttp(protocol: Protocol): HttpRules | null {
  if (protocol === "tcp") return null;
  return {
    protocol,
    path: OUTGOING_PATH,
    sanitizeForwardedClientCert: true,
    requestTimeoutMs: 0,
    streamIdleTimeoutMs: STREAM_IDLE_TIMEOUT_MS,
    showDenials: false,
  };
}

/** Consul takes these in any case; others act as `tcp` there, too. */
export function protocolOf(written: string): Protocol {
  const protocol = written.toLowerCase();
  return protocol === "http" || protocol === "http2" || protocol === "grpc" ? protocol : "tcp";
}
