/**
 * Anchors that left the rules after they had expired. They were not revoked, so connections that they
 * vouched for while they were valid need not end. Pure.
 *
 * @module
 */

import { type Certificate, fingerprintOf } from "./certificate.ts";
import { readCertificates } from "./pem_material.ts";
import type { Validation } from "./validation.ts";

export interface RetiredAnchor {
  readonly certificate: Certificate;
  /** See {@link TrustedPeer}. */
  readonly rootId: string;
  /** The trust domain of its bundle under `spiffe` rules; else "". */
  readonly trustDomain: string;
}

/** Anchors of `before` that are not in `now` and had expired at `nowMs`, the wall clock. */
export function retiredAnchors(
  before: Validation,
  now: Validation,
  nowMs: number,
): readonly RetiredAnchor[] {
  // Rules of another kind are no later version of the old ones.
  if (before.kind !== now.kind) return [];
  const left = bundlesOf(now);
  return Object.entries(bundlesOf(before)).flatMap(([trustDomain, pems]) => {
    const still = new Set(Object.hasOwn(left, trustDomain) ? left[trustDomain] : []);
    return pems.filter((pem) => !still.has(pem))
      .flatMap((pem) => readCertificates(pem, "root certificate"))
      .filter(({ notAfterMs }) => notAfterMs < nowMs)
      .map((certificate) => ({ certificate, rootId: fingerprintOf(certificate), trustDomain }));
  });
}

/** The retired anchors of a trust domain; "": under rules without trust domains. */
export function retiredOf(
  trustDomain: string,
  retired: readonly RetiredAnchor[] = [],
): readonly Certificate[] {
  return retired.filter((anchor) => anchor.trustDomain === trustDomain)
    .map(({ certificate }) => certificate);
}

function bundlesOf(validation: Validation): Readonly<Record<string, readonly string[]>> {
  return validation.kind === "spiffe" ? validation.bundles : { "": validation.rootPems };
}
