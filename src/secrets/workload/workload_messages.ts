/** Responses of the SPIFFE Workload API (4.5): one that breaks a rule is refused whole. @module */

import { messageOf, ProxyError } from "../../base/mod.ts";
import { parseTrustDomainId } from "../../identity/mod.ts";
import { plainBytes, plainList, type PlainMessage, plainText, Protobuf } from "../../wire/mod.ts";

/** Field numbers of the standard (SPIFFE Workload API 5.1). Each response is the whole state. */
export const WORKLOAD_PROTOBUF: Protobuf = new Protobuf({
  X509SVIDResponse: {
    svids: "1 repeated X509SVID",
    crl: "2 repeated bytes",
    federated_bundles: "3 map bytes",
  },
  X509SVID: {
    spiffe_id: "1 string",
    x509_svid: "2 bytes",
    x509_svid_key: "3 bytes",
    bundle: "4 bytes",
    hint: "5 string",
  },
  X509BundlesResponse: { crl: "1 repeated bytes", bundles: "2 map bytes" },
});

/** One identity with its key and the bundle of its trust domain. */
export interface Svid {
  readonly spiffeId: string;
  /** Concatenated certificates in DER, leaf first. */
  readonly chain: Uint8Array;
  /** PKCS#8 in DER. */
  readonly key: Uint8Array;
  /** Concatenated certificates in DER. */
  readonly bundle: Uint8Array;
  /** "": none. */
  readonly hint: string;
}

/** By trust domain, lower case: concatenated certificates in DER. */
export type Bundles = ReadonlyMap<string, Uint8Array>;

export interface SvidMessage {
  /** Not empty. */
  readonly svids: readonly Svid[];
  readonly federated: Bundles;
  /** One list each, DER. */
  readonly crls: readonly Uint8Array[];
}

export interface BundlesMessage {
  /** Not empty. */
  readonly bundles: Bundles;
  readonly crls: readonly Uint8Array[];
}

/** An agent with federation everywhere sends some 100 KiB. */
export const MESSAGE_LIMIT_BYTES = 4 << 20;
const SVID_LIMIT = 1_000;
const BUNDLE_LIMIT = 1_000;
const CRL_LIMIT = 100;

/** Throws `credentials_invalid`. */
export function decodeSvids(bytes: Uint8Array): SvidMessage {
  const what = "X509SVIDResponse";
  const message = decode(bytes, what);
  const svids = plainList(message.svids).map((svid) => svidOf(svid, what));
  if (svids.length === 0) fail(what, "it has no SVID");
  if (svids.length > SVID_LIMIT) fail(what, `it has more than ${SVID_LIMIT} SVIDs`);
  return {
    svids,
    federated: bundlesOf(message.federated_bundles, what),
    crls: crlsOf(message.crl, what),
  };
}

/** Throws `credentials_invalid`. */
export function decodeBundles(bytes: Uint8Array): BundlesMessage {
  const what = "X509BundlesResponse";
  const message = decode(bytes, what);
  const bundles = bundlesOf(message.bundles, what);
  if (bundles.size === 0) fail(what, "it has no bundle");
  return { bundles, crls: crlsOf(message.crl, what) };
}

function decode(bytes: Uint8Array, what: string): PlainMessage {
  if (bytes.length > MESSAGE_LIMIT_BYTES) {
    return fail(what, `it has more than ${MESSAGE_LIMIT_BYTES} bytes`);
  }
  try {
    return WORKLOAD_PROTOBUF.decode(what, bytes);
  } catch (cause) {
    // No error of the decoder shows content of the message.
    return fail(what, `it is no such message (${messageOf(cause)})`);
  }
}

function svidOf(fields: PlainMessage, what: string): Svid {
  const spiffeId = plainText(fields.spiffe_id);
  const svid = {
    spiffeId,
    chain: plainBytes(fields.x509_svid),
    key: plainBytes(fields.x509_svid_key),
    bundle: plainBytes(fields.bundle),
    hint: plainText(fields.hint),
  };
  const named = `the SVID of ${shown(spiffeId)}`;
  if (spiffeId === "") fail(what, "an SVID has no SPIFFE id");
  if (svid.chain.length === 0) fail(what, `${named} has no certificate`);
  if (svid.key.length === 0) fail(what, `${named} has no key`);
  if (svid.bundle.length === 0) fail(what, `${named} has no bundle`);
  return svid;
}

function bundlesOf(map: unknown, what: string): Bundles {
  const bundles = new Map<string, Uint8Array>();
  for (const [id, value] of Object.entries(map ?? {})) {
    const domain = parseTrustDomainId(id);
    if (domain === undefined) return fail(what, `${shown(id)} is not the id of a trust domain`);
    // Two spellings of one domain would leave open which bundle counts.
    if (bundles.has(domain)) return fail(what, `it has two bundles of ${domain}`);
    const bundle = plainBytes(value);
    if (bundle.length === 0) return fail(what, `the bundle of ${domain} is empty`);
    bundles.set(domain, bundle);
    if (bundles.size > BUNDLE_LIMIT) fail(what, `it has more than ${BUNDLE_LIMIT} bundles`);
  }
  return bundles;
}

function crlsOf(value: unknown, what: string): Uint8Array[] {
  const crls = plainList(value).map(plainBytes);
  if (crls.length > CRL_LIMIT) fail(what, `it has more than ${CRL_LIMIT} revocation lists`);
  if (crls.some((crl) => crl.length === 0)) fail(what, "a revocation list is empty");
  return crls;
}

/** A text of the agent's, quoted and bounded. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}

function fail(what: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use ${what} of the Workload API: ${fact}`);
}
