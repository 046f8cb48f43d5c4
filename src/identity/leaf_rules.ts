/**
 * What a leaf must be outside the mesh: of any CA that is trusted, or as an X509-SVID.
 *
 * @module
 */

import { allowsKeyUsage, type Certificate } from "./certificate.ts";
import { OID } from "./oids.ts";
import { type Usage, validityFault } from "./path.ts";
import { keyFault } from "./signature.ts";

export interface LeafOptions {
  readonly nowMs: number;
  readonly usage: Usage;
  readonly allowExpired: boolean;
}

/**
 * What disqualifies any leaf, or `undefined`. `isAnchor`: the operator listed this very certificate. Then it
 * may say that it is a CA, as `openssl req -x509` makes them, unless it says that it signs others, too.
 */
export function anyLeafFault(
  leaf: Certificate,
  options: LeafOptions & { readonly isAnchor: boolean },
): string | undefined {
  const isPlain = options.isAnchor && !allowsKeyUsage(leaf, "keyCertSign");
  if (leaf.basicConstraints?.ca && !isPlain) return "its certificate is a CA";
  const fault = commonFault(leaf, options);
  if (fault !== undefined) return fault;
  const usages = leaf.extendedKeyUsage;
  const needed = options.usage === "client" ? OID.clientAuth : OID.serverAuth;
  if (usages && !usages.includes(needed) && !usages.includes(OID.anyExtendedKeyUsage)) {
    return `its certificate's extended key usage lacks ${options.usage}Auth`;
  }
  return undefined;
}

/** What disqualifies an X509-SVID (X509-SVID 4 and 5), or `undefined`. Its id is looked at elsewhere. */
export function svidFault(leaf: Certificate, options: LeafOptions): string | undefined {
  if (leaf.basicConstraints?.ca) return "its certificate is a CA";
  if (leaf.keyUsage === undefined) return "its certificate has no key usage";
  if (leaf.keyUsageCritical !== true) return "its certificate's key usage is not critical";
  if (allowsKeyUsage(leaf, "keyCertSign") || allowsKeyUsage(leaf, "cRLSign")) {
    return "its certificate's key usage is that of a CA";
  }
  const fault = commonFault(leaf, options);
  if (fault !== undefined) return fault;
  const usages = leaf.extendedKeyUsage;
  for (const usage of ["serverAuth", "clientAuth"] as const) {
    if (usages && !usages.includes(OID[usage])) {
      return `its certificate's extended key usage lacks ${usage}`;
    }
  }
  return undefined;
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
