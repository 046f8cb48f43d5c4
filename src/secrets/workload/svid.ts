/** Selects the SVID and bundles of a reference, and checks X509-SVID's rules for a leaf. Pure. @module */

import { createPrivateKey, createPublicKey } from "node:crypto";
import { messageOf, ProxyError } from "../../base/mod.ts";
import {
  allowsKeyUsage,
  type Certificate,
  NO_RULES,
  OID,
  parseCertificate,
  parseSpiffeId,
  sameBytes,
  spkiOf,
} from "../../identity/mod.ts";
import { DerReader, formatPem, TAG } from "../../wire/mod.ts";
import type { CertificateSpec, DataSource, ValidationSpec } from "../model/secret.ts";
import { type Bundles, shown, type Svid, type SvidMessage } from "./workload_messages.ts";

/** Selects among several SVIDs; without id and hint any SVID fits. */
export interface SvidChoice {
  readonly id?: string;
  readonly hint?: string;
}

/**
 * The fitting SVID whose id is in use, else the first one: an agent changes the order of its SVIDs, and
 * hints, which should be unique, may not be.
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

export function absence({ svids }: SvidMessage): string {
  const offered = svids.slice(0, OFFERED_LIMIT).map(({ spiffeId, hint }) =>
    hint === "" ? shown(spiffeId) : `${shown(spiffeId)} with hint ${shown(hint)}`
  );
  const more = svids.length - offered.length;
  if (more > 0) offered.push(`${more} more`);
  return `the agent has no such SVID for this process; it offers ${offered.join(", ")}`;
}

/** Throws `credentials_invalid` unless every part is valid. */
export function certificateSpecOf(svid: Svid): CertificateSpec {
  const named = `the SVID of ${shown(svid.spiffeId)}`;
  const chain = splitDer(svid.chain, { what: `the chain of ${named}`, limit: CHAIN_LIMIT });
  const [leaf] = chain;
  if (leaf) checkLeaf(svid, leaf);
  return {
    type: "certificate",
    chain: inlinePem("CERTIFICATE", chain),
    key: inlinePem("PRIVATE KEY", [svid.key]),
  };
}

/** The bundle of the SVID's own trust domain, and the federated ones. */
export function bundlesFor(svid: Svid, { federated }: SvidMessage): Bundles {
  const own = trustDomainOf(svid);
  const other = federated.get(own);
  if (other && !sameBytes(other, svid.bundle)) {
    return fail(`the federated bundle of ${own} differs from the SVID's own`);
  }
  return new Map([[own, svid.bundle], ...federated]);
}

/** Throws `credentials_invalid` if a bundle is no list of certificates. */
export function validationSpecOf(bundles: Bundles, crls: readonly Uint8Array[]): ValidationSpec {
  const domains = [...bundles].sort(([a], [b]) => a < b ? -1 : 1).map(([name, bytes]) => {
    const anchors = splitDer(bytes, { what: `the bundle of ${name}`, limit: BUNDLE_LIMIT });
    return { name, bundle: inlinePem("CERTIFICATE", anchors) };
  });
  return {
    type: "validation",
    systemRoots: false,
    spiffe: { kind: "domains", domains },
    ...crls.length > 0 && { crl: inlinePem("X509 CRL", crls) },
    rules: NO_RULES,
  };
}

/** SVIDs in one message for people. */
const OFFERED_LIMIT = 10;
/** Leaf and intermediates. */
const CHAIN_LIMIT = 11;
/** Anchors of one trust domain. */
const BUNDLE_LIMIT = 100;

/** An SVID with an extended key usage must allow both (X509-SVID 4.4). */
const SVID_USAGES = [OID.serverAuth, OID.clientAuth] as const;

/** Concatenated certificates; at least one. */
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
  if (!allowsKeyUsage(leaf, "digitalSignature")) fail(`${named} has no key usage digitalSignature`);
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

/** The library's error is dropped: it might show the private key. */
function publicKeyOf(pkcs8: Uint8Array): Uint8Array | undefined {
  try {
    return spkiOf(createPublicKey(createPrivateKey(formatPem("PRIVATE KEY", pkcs8))));
  } catch {
    return undefined;
  }
}

/** Throws if the id is not a workload's. */
function trustDomainOf({ spiffeId }: Svid): string {
  const parsed = parseSpiffeId(spiffeId);
  if (parsed.kind === "id") return parsed.trustDomain;
  return fail(`the SPIFFE id ${shown(spiffeId)} ${parsed.reason}`);
}

function inlinePem(label: string, ders: readonly Uint8Array[]): DataSource {
  const pem = ders.map((der) => formatPem(label, der)).join("");
  return { kind: "inline", bytes: new TextEncoder().encode(pem) };
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use what the Workload API sent: ${fact}`);
}
