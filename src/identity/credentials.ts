/**
 * Our own certificate, key and roots, checked as one before they replace the last good ones: whatever
 * gets past here can be given to the TLS library and will be accepted by peers with the same roots.
 *
 * @module
 */

import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { messageOf, ProxyError } from "../base/mod.ts";
import { formatPem, parsePem, type PemBlock } from "../wire/mod.ts";
import { type Certificate, parseCertificate, sameBytes } from "./certificate.ts";
import { identityOf, leafFault, PRESENTED_LIMIT } from "./chain.ts";
import { spkiOf } from "./mint.ts";
import { findPath, namesFit, type Usage } from "./path.ts";
import { isSignedBy } from "./signature.ts";
import type { ServiceId } from "./spiffe.ts";

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

const ROOT_LIMIT = 100;
const KEY_LABELS: ReadonlySet<string> = new Set([
  "PRIVATE KEY",
  "EC PRIVATE KEY",
  "RSA PRIVATE KEY",
]);

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
    keyPem: key.export({ type: "pkcs8", format: "pem" }).toString(),
    rootPems: roots.map(pemOf),
    trustDomains,
    ...identity.peer,
    serial: leaf.serial,
    notBeforeMs: leaf.notBeforeMs,
    notAfterMs: leaf.notAfterMs,
  };
}

/** Every certificate in `rootPems` once; throws `credentials_invalid` on anything unreadable. */
export function parseRoots(rootPems: readonly string[]): readonly Certificate[] {
  const roots: Certificate[] = [];
  for (const pem of rootPems) {
    for (const root of readCertificates(pem, "root certificate")) {
      if (!roots.some((known) => sameBytes(known.raw, root.raw))) roots.push(root);
      if (roots.length > ROOT_LIMIT) fail(`there are more than ${ROOT_LIMIT} roots`);
    }
  }
  return roots;
}

function readCertificates(pem: string, what: string): Certificate[] {
  const blocks = parsePem(pem, { what }).filter((block) => block.label === "CERTIFICATE");
  if (blocks.length === 0) fail(`${what} PEM has no CERTIFICATE block`);
  return blocks.map((block) => readCertificate(block, what));
}

function readCertificate(block: PemBlock, what: string): Certificate {
  try {
    return parseCertificate(block.der);
  } catch (cause) {
    throw new ProxyError("credentials_invalid", `Cannot use ${what}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

function readKey(pem: string): KeyObject {
  const blocks = parsePem(pem, { what: "private key" })
    .filter((block) => KEY_LABELS.has(block.label));
  const [block, second] = blocks;
  if (!block) return fail("private key PEM has no PRIVATE KEY block");
  if (second) return fail("private key PEM has more than one PRIVATE KEY block");
  try {
    return createPrivateKey(formatPem(block.label, block.der));
  } catch (cause) {
    // The runtime's message names no key material, but nothing promises that: it is not repeated.
    throw new ProxyError(
      "credentials_invalid",
      `Cannot use credentials: "${block.label}" is not a private key that can be read`,
      { cause },
    );
  }
}

/** The certificate that belongs to the key: the first one unless a file has another order. */
function pickLeaf(
  certificates: readonly Certificate[],
  key: KeyObject,
): { readonly leaf: Certificate; readonly others: readonly Certificate[] } {
  const spki = spkiOf(createPublicKey(key));
  const leaf = certificates.find((certificate) => sameBytes(certificate.spki, spki));
  if (!leaf) return fail("the private key does not belong to the leaf certificate");
  const others = certificates.filter((certificate) => !sameBytes(certificate.raw, leaf.raw));
  if (others.length > PRESENTED_LIMIT) {
    return fail(`${others.length} certificates follow the leaf, more than ${PRESENTED_LIMIT}`);
  }
  return { leaf, others };
}

/**
 * TLS libraries send certificates as they are given, and some peers want each to certify the one before
 * (RFC 5246 7.4.2). Consul's list is not in that order after a rotation in a secondary datacenter.
 * Those that link nothing come last.
 */
function inIssuingOrder(leaf: Certificate, others: readonly Certificate[]): Certificate[] {
  const rest = [...others];
  const ordered: Certificate[] = [];
  for (let current = leaf; rest.length > 0;) {
    const at = rest.findIndex((issuer) => namesFit(current, issuer) && isSignedBy(current, issuer));
    const [next] = at < 0 ? [] : rest.splice(at, 1);
    if (!next) break;
    ordered.push(next);
    current = next;
  }
  return [...ordered, ...rest];
}

function pemOf(certificate: Certificate): string {
  return formatPem("CERTIFICATE", certificate.raw);
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
