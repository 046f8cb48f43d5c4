/**
 * Is a server that speaks HTTP/2 over TLS who it should be? Our own check decides; the TLS library's must
 * agree where it can express the rules.
 *
 * @module
 */

import {
  createPeerValidator,
  parseCertificate,
  sameBytes,
  type SanMatcher,
  type Validation,
} from "../identity/mod.ts";
import { canonicalIpText, ProxyError } from "../base/mod.ts";
import type { ClientTls, PresentedPeer } from "../net/mod.ts";
import { parsePem } from "../wire/mod.ts";
import type { GrpcEngine, GrpcTlsMaterial } from "./types.ts";

/** To dial the server with; `serverName` is its SNI, unless it is an address. Throws `credentials_invalid`. */
export function clientTlsFor(
  serverName: string,
  options: { readonly engine: GrpcEngine; readonly material: GrpcTlsMaterial },
): ClientTls {
  const { rootPems, certPem, keyPem, peerCheck } = options.material;
  if (peerCheck === "checked" && rootPems.length === 0) {
    throw new ProxyError("credentials_invalid", "Cannot check the server: it has no anchors");
  }
  return options.engine.clientTls({
    ...{ rootPems, certPem, keyPem, peerCheck },
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
    protocols: ["h2"],
  }, { serverName: canonicalIpText(serverName) === undefined ? serverName : "" });
}

/** Why a server is not talked to: our own verdict says more than that of the TLS library. */
export function whyRefused(
  peer: PresentedPeer | undefined,
  { judge }: GrpcTlsMaterial,
): string | undefined {
  if (!peer?.leaf) return peer?.reason || "the connection is not encrypted";
  const judged = judge([peer.leaf, ...peer.chain()]);
  if (judged !== undefined) return judged;
  return peer.accepted ? undefined : peer.reason;
}

/** What the certificate of the server `name`, a DNS name or an IP address, has among its names. */
export function serverNameMatcher(name: string): SanMatcher {
  const isIp = name.includes(":") || /^\d+(\.\d+){3}$/.test(name);
  return {
    type: isIp ? "ip" : "dns",
    matcher: { kind: "exact", value: name, ignoreCase: !isIp },
  };
}

/** Regexes among the rules must have been prepared; throws `credentials_invalid`. */
export function serverJudge(
  validation: Exclude<Validation, { readonly kind: "mesh" }>,
  nowMs: () => number,
): GrpcTlsMaterial["judge"] {
  const validator = createPeerValidator(validation, {
    serviceTrustDomains: [],
    strictSpiffeChain: false,
  });
  return ([leaf, ...presented]) => {
    if (!leaf) return "the server showed no certificate";
    const verdict = validator.judge({ leaf, presented, nowMs: nowMs(), usage: "server" });
    return verdict.kind === "trusted" ? undefined : `the server is not trusted: ${verdict.reason}`;
  };
}

/** Anchors that the library takes for what they are: each is a root. */
export function areRoots(rootPems: readonly string[]): boolean {
  return rootPems.length > 0 &&
    rootPems.every((pem) =>
      parsePem(pem, { what: "anchors" }).every(({ der }) => {
        const { issuer, subject } = parseCertificate(der);
        return sameBytes(issuer, subject);
      })
    );
}
