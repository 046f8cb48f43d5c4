/**
 * Our own certificate, key and roots, checked as one before they replace the last good ones: whatever
 * gets past here can be given to the TLS library and will be accepted by peers with the same roots.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";
import { identityOf, leafFault } from "./chain.ts";
import { findPath, type Usage } from "./path.ts";
import {
  inIssuingOrder,
  parseRoots,
  pemOf,
  pickLeaf,
  pkcs8Of,
  readCertificates,
  readKey,
} from "./pem_material.ts";
import type { ServiceId } from "./spiffe.ts";

export { parseRoots };

export interface CredentialsInput {
  /** Leaf and what links it to a root, in any order. */
  readonly certPem: string;
  /** SEC1, PKCS#1 or PKCS#8, without a passphrase. */
  readonly keyPem: string;
  readonly rootPems: readonly string[];
  /** The roots reply's and external ones of its roots; case does not matter. */
  readonly trustDomains: readonly string[];
  readonly nowMs: number;
  readonly strictSpiffeChain?: boolean;
}

/** What `CredentialsPart` of the snapshot needs, and the id. */
export interface ValidatedCredentials {
  /** Leaf first, then each certificate after the one it signed. */
  readonly certPem: string;
  /** PKCS#8. */
  readonly keyPem: string;
  /** One certificate each, no two alike. */
  readonly rootPems: readonly string[];
  readonly trustDomains: readonly string[];
  readonly uri: string;
  readonly id: ServiceId;
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Throws `credentials_invalid` that names what is wrong; anything returned is sound at `nowMs`. */
export function validateCredentials(input: CredentialsInput): ValidatedCredentials {
  const { nowMs, strictSpiffeChain = false } = input;
  const trustDomains = [...new Set(input.trustDomains.map((domain) => domain.toLowerCase()))];
  const roots = parseRoots(input.rootPems);
  if (roots.length === 0) fail("there is no root certificate");
  const key = readKey(input.keyPem);
  const { leaf, others } = pickLeaf(readCertificates(input.certPem, "leaf certificate"), key);
  const identity = identityOf(leaf, trustDomains);
  if (identity.kind === "refused") return fail(`the leaf is not acceptable: ${identity.reason}`);
  for (const usage of ["client", "server"] as const satisfies readonly Usage[]) {
    const fault = leafFault(leaf, { nowMs, usage });
    if (fault !== undefined) fail(`the leaf of ${identity.peer.uri} is not acceptable: ${fault}`);
    const path = findPath({
      leaf,
      presented: others,
      roots,
      nowMs,
      usage,
      ...strictSpiffeChain && { spiffeTrustDomains: trustDomains },
    });
    if (path.kind === "none") {
      fail(`the leaf of ${identity.peer.uri} does not reach a root: ${path.reason}`);
    }
  }
  return {
    certPem: [leaf, ...inIssuingOrder(leaf, others)].map(pemOf).join(""),
    keyPem: pkcs8Of(key),
    rootPems: roots.map(pemOf),
    trustDomains,
    ...identity.peer,
    serial: leaf.serial,
    notBeforeMs: leaf.notBeforeMs,
    notAfterMs: leaf.notAfterMs,
  };
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
