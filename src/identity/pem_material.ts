/**
 * Certificates and keys in PEM: reads, separates and orders them. Throws `credentials_invalid` that names
 * the fault, without key material.
 *
 * @module
 */

import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { messageOf, ProxyError } from "../base/mod.ts";
import { formatPem, parsePem, type PemBlock } from "../wire/mod.ts";
import { type Certificate, parseCertificate, sameBytes } from "./certificate.ts";
import { namesFit } from "./path.ts";
import { PRESENTED_LIMIT } from "./chain.ts";
import { isSignedBy } from "./signature.ts";

/** Roots of a mesh. A store of public roots has more and gives its own limit. */
const ROOT_LIMIT = 100;
const KEY_LABELS: ReadonlySet<string> = new Set([
  "PRIVATE KEY",
  "EC PRIVATE KEY",
  "RSA PRIVATE KEY",
]);

/** DER of a public key's SubjectPublicKeyInfo. */
export function spkiOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(publicKey.export({ type: "spki", format: "der" }));
}

/** Every certificate in `rootPems` once; throws `credentials_invalid` for an unreadable one. */
export function parseRoots(
  rootPems: readonly string[],
  options: { readonly what?: string; readonly limit?: number } = {},
): readonly Certificate[] {
  const { what = "root certificate", limit = ROOT_LIMIT } = options;
  const roots: Certificate[] = [];
  for (const pem of rootPems) {
    for (const root of readCertificates(pem, what)) {
      if (!roots.some((known) => sameBytes(known.raw, root.raw))) roots.push(root);
      if (roots.length > limit) fail(`there are more than ${limit} roots`);
    }
  }
  return roots;
}

/** The certificates of a PEM text; at least one. */
export function readCertificates(pem: string, what: string): Certificate[] {
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

/** The one private key of a PEM text. */
export function readKey(pem: string): KeyObject {
  const blocks = parsePem(pem, { what: "private key" })
    .filter((block) => KEY_LABELS.has(block.label));
  const [block, second] = blocks;
  if (!block) return fail("private key PEM has no PRIVATE KEY block");
  if (second) return fail("private key PEM has more than one PRIVATE KEY block");
  try {
    return createPrivateKey(formatPem(block.label, block.der));
  } catch (cause) {
    // The runtime's message is not repeated: nothing promises that it has no key material.
    throw new ProxyError(
      "credentials_invalid",
      `Cannot use credentials: "${block.label}" is not a private key that can be read`,
      { cause },
    );
  }
}

/** The certificate of the key: the first one, unless a file has another order. */
export function pickLeaf(
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
 * TLS libraries send certificates in the given order, and some peers require that each certifies the one
 * before (RFC 5246 7.4.2). Consul's list is not in that order after a rotation in a secondary datacenter.
 * Certificates without a link come last.
 */
export function inIssuingOrder(leaf: Certificate, others: readonly Certificate[]): Certificate[] {
  const rest = [...others];
  const ordered: Certificate[] = [];
  for (let current = leaf;;) {
    const at = rest.findIndex((issuer) => namesFit(current, issuer) && isSignedBy(current, issuer));
    const [next] = at < 0 ? [] : rest.splice(at, 1);
    if (!next) break;
    ordered.push(next);
    current = next;
  }
  return [...ordered, ...rest];
}

export function pemOf(certificate: Certificate): string {
  return formatPem("CERTIFICATE", certificate.raw);
}

/** PKCS#8 PEM. */
export function pkcs8Of(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

export function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
