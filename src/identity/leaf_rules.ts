/**
 * The rules for a leaf: in the mesh, from any trusted CA, and as an X509-SVID. Each gives the fault of the
 * leaf, or `undefined`.
 *
 * @module
 */

import { allowsKeyUsage, allowsPurpose, type Certificate } from "./certificate.ts";
import { OID, PURPOSE, type Usage } from "./oids.ts";
import { validityFault } from "./path.ts";
import { keyFault } from "./signature.ts";

interface LeafOptions {
  readonly nowMs: number;
  readonly usage: Usage;
  readonly allowExpired?: boolean;
}

/**
 * In the mesh the extended key usage is mandatory: Consul always sets it, so a leaf without one is
 * refused, and so is one with "any".
 */
export function leafFault(leaf: Certificate, options: LeafOptions): string | undefined {
  const fault = caFault(leaf) ?? commonFault(leaf, options) ?? caUsageFault(leaf);
  if (fault !== undefined) return fault;
  const { usage } = options;
  return leaf.extendedKeyUsage?.includes(PURPOSE[usage]) ? undefined : lacks(`${usage}Auth`);
}

/**
 * `isAnchor`: the operator listed this very certificate. It may be a CA, as `openssl req -x509` makes it,
 * unless its key usage says that it signs others.
 */
export function anyLeafFault(
  leaf: Certificate,
  options: LeafOptions & { readonly isAnchor: boolean },
): string | undefined {
  const isPlain = options.isAnchor && !allowsKeyUsage(leaf, "keyCertSign");
  const fault = (isPlain ? undefined : caFault(leaf)) ?? commonFault(leaf, options);
  if (fault !== undefined) return fault;
  return allowsPurpose(leaf, options.usage) ? undefined : lacks(`${options.usage}Auth`);
}

/** X509-SVID 4 and 5, without the id. */
export function svidFault(leaf: Certificate, options: LeafOptions): string | undefined {
  if (leaf.basicConstraints?.ca) return caFault(leaf);
  if (leaf.keyUsage === undefined) return "its certificate has no key usage";
  if (leaf.keyUsageCritical !== true) return "its certificate's key usage is not critical";
  const fault = caUsageFault(leaf) ?? commonFault(leaf, options);
  if (fault !== undefined) return fault;
  const { extendedKeyUsage: usages } = leaf;
  const missing = (["serverAuth", "clientAuth"] as const).find((usage) =>
    usages && !usages.includes(OID[usage])
  );
  return missing && lacks(missing);
}

function caFault({ basicConstraints }: Certificate): string | undefined {
  return basicConstraints?.ca ? "its certificate is a CA" : undefined;
}

function caUsageFault(leaf: Certificate): string | undefined {
  return allowsKeyUsage(leaf, "keyCertSign") || allowsKeyUsage(leaf, "cRLSign")
    ? "its certificate's key usage is that of a CA"
    : undefined;
}

function lacks(purpose: string): string {
  return `its certificate's extended key usage lacks ${purpose}`;
}

function commonFault(leaf: Certificate, options: LeafOptions): string | undefined {
  const [unknown] = leaf.notUnderstood;
  if (unknown) return `its certificate has an extension that is not understood (${unknown})`;
  const late = options.allowExpired ? undefined : validityFault(leaf, options.nowMs);
  const fault = late ?? keyFault(leaf);
  if (fault !== undefined) return `its certificate ${fault}`;
  if (allowsKeyUsage(leaf, "digitalSignature") === false) {
    return "its certificate's key usage lacks digitalSignature";
  }
  return undefined;
}
