/**
 * Is a gRPC server who it should be? Our own check decides; the TLS library's must agree where it can
 * express the rules.
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
import { parsePem } from "../wire/mod.ts";
import type { GrpcTlsMaterial } from "./types.ts";

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
