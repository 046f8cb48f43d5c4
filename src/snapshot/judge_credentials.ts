/**
 * The agent's leaf and roots as one credentials value, judged whole before it replaces the last good
 * one.
 *
 * @module
 */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { messageOf } from "../base/mod.ts";
import type { Leaf, Roots } from "../consul/mod.ts";
import { parseServiceId } from "../identity/mod.ts";
import type { Content } from "./parts.ts";
import type { CredentialsPart } from "./snapshot.ts";

export type CredentialsVerdict =
  | { readonly kind: "valid"; readonly credentials: Content<CredentialsPart> }
  | { readonly kind: "invalid"; readonly reason: string };

export interface CredentialsInput {
  readonly leaf: Leaf;
  readonly roots: Roots;
  /** The service that the leaf must be for. */
  readonly service: string;
  readonly nowMs: number;
}

/** Pure; an argument of `assemble()` so that tests can leave the cryptography out. */
export type JudgeCredentials = (input: CredentialsInput) => CredentialsVerdict;

/** The judgement that the proxy runs with. */
export function judgeCredentials(input: CredentialsInput): CredentialsVerdict {
  const { leaf, roots, service, nowMs } = input;
  const invalid = (reason: string): CredentialsVerdict => ({ kind: "invalid", reason });
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(leaf.certPem);
    if (!certificate.checkPrivateKey(createPrivateKey(leaf.keyPem))) {
      return invalid("the leaf does not match its key");
    }
    for (const root of roots.roots) new X509Certificate(root.pem);
  } catch (error) {
    return invalid(`they do not parse: ${messageOf(error)}`);
  }
  if (roots.roots.length === 0) return invalid("there is no root");
  const parsed = parseServiceId(leaf.uri);
  if (parsed.kind === "refused") return invalid(`the leaf's id ${parsed.reason}`);
  const trustDomains = trustDomainsOf(roots);
  if (!trustDomains.includes(parsed.id.trustDomain)) {
    return invalid(`the leaf's trust domain "${parsed.id.trustDomain}" is not that of the roots`);
  }
  if (parsed.id.service.toLowerCase() !== service.toLowerCase()) {
    return invalid(`the leaf is for service "${parsed.id.service}", not "${service}"`);
  }
  const notBeforeMs = Date.parse(certificate.validFrom);
  const notAfterMs = Date.parse(certificate.validTo);
  if (!(notBeforeMs <= nowMs)) {
    return invalid(`the leaf is not valid before ${certificate.validFrom}`);
  }
  if (!(nowMs < notAfterMs)) return invalid(`the leaf expired at ${certificate.validTo}`);
  const { certPem, keyPem, uri, serial } = leaf;
  const rootPems = roots.roots.map(({ pem }) => pem).sort();
  return {
    kind: "valid",
    credentials: { certPem, keyPem, rootPems, trustDomains, uri, serial, notBeforeMs, notAfterMs },
  };
}

/** The reply's own first, then external ones of its roots, each once. */
export function trustDomainsOf(roots: Roots): readonly string[] {
  const external = roots.roots.map((root) => root.externalTrustDomain).filter((name) =>
    name !== ""
  );
  return [...new Set([roots.trustDomain, ...external.sort()])];
}
