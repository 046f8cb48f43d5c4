/**
 * Rules of listeners that understand HTTP, with the defaults that Consul gives Envoy, but for those of
 * ours: no request timeout where none is configured.
 *
 * @module
 */

import { DEFAULT_HTTP_LIMITS, type PathRules } from "../../http/mod.ts";
import type { HttpRules, Protocol } from "../../snapshot/mod.ts";

export type HttpSettings = {
  readonly [Key in Exclude<keyof HttpRules, "protocol">]?: HttpRules[Key] | undefined;
};

/** Paths from callers of the service are normalised, since rules are about paths. */
export const INCOMING_PATH: PathRules = {
  normalize: true,
  mergeSlashes: false,
  escapedSlashes: "keep",
  underscores: "allow",
};

/** For listeners without intentions: the other side of an upstream normalises. */
export const UNJUDGED_PATH: PathRules = { ...INCOMING_PATH, normalize: false };

/** Envoy's. */
const STREAM_IDLE_TIMEOUT_MS = 300_000;

/** Rules of a listener for callers of the service; `null`: its protocol is not HTTP. */
export function inboundHttp(protocol: Protocol, settings: HttpSettings = {}): HttpRules | null {
  const path = settings.path ?? INCOMING_PATH;
  // As in Consul, gRPC services get no header about the caller.
  const sanitizeForwardedClientCert = protocol === "grpc" || settings.sanitizeForwardedClientCert;
  return httpOf(protocol, { ...settings, path, sanitizeForwardedClientCert });
}

/** Rules of a listener without intentions, an upstream's; `null`: its protocol is not HTTP. */
export function unjudgedHttp(protocol: Protocol, settings: HttpSettings = {}): HttpRules | null {
  return httpOf(protocol, { ...settings, sanitizeForwardedClientCert: true });
}

function httpOf(protocol: Protocol, settings: HttpSettings): HttpRules | null {
  if (protocol === "tcp") return null;
  return {
    protocol,
    path: settings.path ?? UNJUDGED_PATH,
    sanitizeForwardedClientCert: settings.sanitizeForwardedClientCert ?? false,
    headBytes: settings.headBytes ?? DEFAULT_HTTP_LIMITS.headBytes,
    requestTimeoutMs: settings.requestTimeoutMs ?? 0,
    streamIdleTimeoutMs: settings.streamIdleTimeoutMs ?? STREAM_IDLE_TIMEOUT_MS,
    showDenials: settings.showDenials ?? "code",
  };
}

/** Consul takes these in any case; `undefined`: it is unknown. */
export function protocolOf(written: string): Protocol | undefined {
  return PROTOCOLS.find((protocol) => protocol === written.toLowerCase());
}

const PROTOCOLS: readonly Protocol[] = ["tcp", "http", "http2", "grpc"];

export function unknownProtocol(written: string): string {
  return `"${written}" is not known, so connections are carried as they are; ` +
    "write tcp, http, http2 or grpc";
}
