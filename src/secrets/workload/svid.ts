/**
 * Which SVID and which bundles a reference means, and whether an SVID is one: what the X509-SVID standard
 * asks of a leaf beyond what any certificate must be. Pure.
 *
 * @module
 */

import { createPrivateKey, createPublicKey } from "node:crypto";
import { messageOf, ProxyError } from "../../base/mod.ts";
import {
  allowsKeyUsage,
  type Certificate,
  NO_RULES,
  parseCertificate,
  parseSpiffeId,
  sameBytes,
  spkiOf,
} from "../../identity/mod.ts";
import { DerReader, formatPem, TAG } from "../../wire/mod.ts";
import type { CertificateSpec, DataSource, ValidationSpec } from "../spec.ts";
import { type Bundles, shown, type Svid, type SvidMessage } from "./workload_messages.ts";

/** Which of several; neither: any. */
export interface SvidChoice {
  readonly id?: string;
  readonly hint?: string;
}

/**
 * Of those that fit the one whose id is in use, else the first: an agent names them in an order that it
 * changes, and hints, which should be unique, may not be.
 */
export function chooseSvid(
  { svids }: SvidMessage,
  { id, hint }: SvidChoice,
  idInUse?: string,
): Svid | undefined {
  const fitting = svids.filter((svid) =>
    (id === undefined || svid.spiffeId === id) && (hint === undefined || svid.hint === hint)
  );
  return fitting.find(({ spiffeId }) => spiffeId === idInUse) ?? fitting[0];
}

/** What there is instead of what was wanted. */
export function absence({ svids }: SvidMessage): string {
  const offered = svids.slice(0, OFFERED_LIMIT).map(({ spiffeId, hint }) =>
    hint === "" ? shown(spiffeId) : `${shown(spiffeId)} with hint ${shown(hint)}`
  );
  const more = svids.length - offered.length;
  if (more > 0) offered.push(`${more} more`);
  return `the agent has no such SVID for this process; it offers ${offered.join(", ")}`;
}

/** Throws `credentials_invalid` unless everything in it is what it must be. */
export function certificateSpecOf(svid: Svid): CertificateSpec {
  const named = `the SVID of ${shown(svid.spiffeId)}`;
  const chain = splitDer(svid.chain, { what: `the chain of ${named}`, limit: CHAIN_LIMIT });
  const [leaf] = chain;
  if (leaf) checkLeaf(svid, leaf);
  return {
    type: "certificate",
    chain: inline(chain.map((der) => formatPem("CERTIFICATE", der)).join("")),
    key: inline(formatPem("PRIVATE KEY", svid.key)),
  };
}

/** The bundle of the SVID's own trust domain, and those of others that its workload shall trust. */
export function bundlesFor(svid: Svid, { federated }: SvidMessage): Bundles {
  const own = trustDomainOf(svid);
  const other = federated.get(own);
  if (other && !sameBytes(other, svid.bundle)) {
    return fail(`the federated bundle of ${own} differs from the SVID's own`);
  }
  return new Map([[own, svid.bundle], ...federated]);
}

/** Throws `credentials_invalid` where a bundle cannot be taken apart. */
export function validationSpecOf(bundles: Bundles, crls: readonly Uint8Array[]): ValidationSpec {
  const domains = [...bundles].sort(([a], [b]) => a < b ? -1 : 1).map(([name, bytes]) => {
    const anchors = splitDer(bytes, { what: `the bundle of ${name}`, limit: BUNDLE_LIMIT });
    return { name, bundle: inline(anchors.map((der) => formatPem("CERTIFICATE", der)).join("")) };
  });
  return {
    type: "validation",
    systemRoots: false,
    spiffe: { kind: "domains", domains },
    ...crls.length > 0 &&
      { crl: inline(crls.map((der) => formatPem("X509 CRL", der)).join("")) },
    rules: NO_RULES,
  };
}

/** Identities in a message for people. */
const OFFERED_LIMIT = 10;
/** Leaf and intermediates. */
const CHAIN_LIMIT = 11;
/** Anchors of one trust domain. */
const BUNDLE_LIMIT = 100;

/** serverAuth and clientAuth: an SVID that limits its use must allow both (X509-SVID 4.4). */
const SVID_USAGES = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"] as const;

/** Certificates that follow one another; at least one. */
function splitDer(
  bytes: Uint8Array,
  { what, limit }: { readonly what: string; readonly limit: number },
): Uint8Array[] {
  const parts: Uint8Array[] = [];
  const reader = new DerReader(bytes);
  while (!reader.done) {
    if (parts.length === limit) fail(`${what} has more than ${limit} certificates`);
    try {
      parts.push(reader.read(TAG.sequence, "certificate").raw);
    } catch (cause) {
      fail(`${what} is no list of certificates in DER: ${messageOf(cause)}`);
    }
  }
  if (parts.length === 0) fail(`${what} is empty`);
  return parts;
}

/** X509-SVID 2 to 5. */
function checkLeaf(svid: Svid, der: Uint8Array): void {
  const named = `the SVID of ${shown(svid.spiffeId)}`;
  trustDomainOf(svid);
  const leaf = readLeaf(der, named);
  const [uri, second] = leaf.sanUris;
  if (uri === undefined || second !== undefined) {
    fail(`${named} has ${leaf.sanUris.length} URI alternative names, and must have one`);
  }
  if (uri !== svid.spiffeId) fail(`${named} is a certificate of ${shown(uri)}`);
  if (leaf.basicConstraints?.ca) fail(`${named} is a CA's`);
  if (!allowsKeyUsage(leaf, "digitalSignature")) {
    fail(`${named} has no key usage digitalSignature`);
  }
  if (allowsKeyUsage(leaf, "keyCertSign") || allowsKeyUsage(leaf, "cRLSign")) {
    fail(`${named} has the key usage of a CA`);
  }
  const usages = leaf.extendedKeyUsage;
  if (usages && !SVID_USAGES.every((oid) => usages.includes(oid))) {
    fail(`${named} has an extended key usage that lacks serverAuth or clientAuth`);
  }
  const key = publicKeyOf(svid.key);
  if (key === undefined) fail(`the key of ${named} is no PKCS#8 key that can be read`);
  if (!sameBytes(key, leaf.spki)) fail(`the key of ${named} does not belong to its leaf`);
}

function readLeaf(der: Uint8Array, named: string): Certificate {
  try {
    return parseCertificate(der);
  } catch (cause) {
    return fail(`${named} has a leaf that cannot be read: ${messageOf(cause)}`);
  }
}

/** The public half; the library's error might show the other one and is not passed on. */
function publicKeyOf(pkcs8: Uint8Array): Uint8Array | undefined {
  try {
    const key = createPrivateKey(formatPem("PRIVATE KEY", pkcs8));
    return spkiOf(createPublicKey(key));
  } catch {
    return undefined;
  }
}

/** Throws where the id is none of a workload. */
function trustDomainOf({ spiffeId }: Svid): string {
  const parsed = parseSpiffeId(spiffeId);
  if (parsed.kind === "id") return parsed.trustDomain;
  return fail(`the SPIFFE id ${shown(spiffeId)} ${parsed.reason}`);
}

function inline(pem: string): DataSource {
  return { kind: "inline", bytes: new TextEncoder().encode(pem) };
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use what the Workload API sent: ${fact}`);
}
