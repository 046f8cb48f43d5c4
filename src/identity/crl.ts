/**
 * A certificate revocation list as values (RFC 5280 5): what it says, nothing about whether to believe
 * it. Only whole lists of one issuer are read: a delta, or a list of another issuer's certificates, is
 * refused, because taking one for the whole would let the revoked in.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { messageOf, ProxyError } from "../base/mod.ts";
import {
  bitStringOf,
  booleanOf,
  contextTag,
  DerReader,
  integerOf,
  oidOf,
  parsePem,
  smallIntegerOf,
  TAG,
  timeOf,
} from "../wire/mod.ts";
import { type Certificate, sameBytes } from "./certificate.ts";
import { OID } from "./oids.ts";
import { schemeOf, type SignatureScheme } from "./signature_scheme.ts";

export const CRL_LIMIT_BYTES: number = 4 << 20;
/** What all lists of one validation may have together. */
const CRLS_LIMIT_BYTES = 16 << 20;
const CRLS_LIMIT = 100;
const EXTENSION_LIMIT = 40;

/** Which certificates of its issuer a list speaks about. */
export type CrlScope = "all" | "leaves" | "cas";

export interface Crl {
  /** What the issuer signed, how, and the signature. */
  readonly tbs: Uint8Array;
  readonly scheme: SignatureScheme;
  readonly signature: Uint8Array;
  /** DER of the name. */
  readonly issuer: Uint8Array;
  readonly thisUpdateMs: number;
  /** `Infinity`: the list does not say when the next one comes. */
  readonly nextUpdateMs: number;
  readonly scope: CrlScope;
  /** Ask {@link revokes}. */
  readonly serials: ReadonlySet<string>;
}

/** Every list in `pems`; throws `credentials_invalid` that says which one cannot be used and why. */
export function parseCrls(pems: readonly string[]): readonly Crl[] {
  const crls: Crl[] = [];
  let bytes = 0;
  for (const pem of pems) {
    const blocks = parsePem(pem, { what: "revocation list", limitChars: CRL_LIMIT_BYTES * 3 / 2 })
      .filter(({ label }) => label === "X509 CRL");
    if (blocks.length === 0) fail("revocation list PEM has no X509 CRL block");
    for (const { der } of blocks) {
      bytes += der.length;
      if (bytes > CRLS_LIMIT_BYTES) {
        fail(`revocation lists have more than ${CRLS_LIMIT_BYTES} bytes together`);
      }
      if (crls.length >= CRLS_LIMIT) fail(`there are more than ${CRLS_LIMIT} revocation lists`);
      crls.push(readCrl(der, crls.length + 1));
    }
  }
  return crls;
}

/** One list, DER; throws `credentials_invalid`. */
export function parseCrl(der: Uint8Array): Crl {
  return readCrl(der, 1);
}

/** Whether the list names this certificate of its issuer. */
export function revokes(crl: Crl, certificate: Pick<Certificate, "serial">): boolean {
  const bytes = Buffer.from(certificate.serial.replaceAll(":", ""), "hex");
  return crl.serials.has(bytes.toString("latin1"));
}

function readCrl(der: Uint8Array, number: number): Crl {
  try {
    return readList(der);
  } catch (cause) {
    // The DER reader speaks of certificates, which is what it mostly reads.
    const reason = messageOf(cause).replace(/^Cannot read certificate: /, "");
    throw new ProxyError("credentials_invalid", `Cannot use revocation list ${number}: ${reason}`, {
      cause,
    });
  }
}

function readList(der: Uint8Array): Crl {
  if (der.length > CRL_LIMIT_BYTES) {
    return refuse(`it has ${der.length} bytes, more than ${CRL_LIMIT_BYTES}`);
  }
  const outer = new DerReader(new Uint8Array(der));
  const parts = outer.enter(TAG.sequence, "list");
  outer.end("list");
  const tbs = parts.read(TAG.sequence, "signed part");
  const algorithm = parts.read(TAG.sequence, "signature algorithm");
  const signature = bitStringOf(parts.read(TAG.bitString, "signature"), "signature");
  parts.end("list");
  if (signature.unusedBits !== 0) return refuse("signature is not whole bytes");

  const fields = parts.inside(tbs);
  const version = fields.optional(TAG.integer, "version");
  if (version && smallIntegerOf(version, "version") !== 1) return refuse("it is not version 2");
  // RFC 5280 5.1.1.2: the unsigned copy must equal the signed one.
  if (!sameBytes(fields.read(TAG.sequence, "signature algorithm").raw, algorithm.raw)) {
    return refuse("its signature algorithms differ");
  }
  const issuer = fields.read(TAG.sequence, "issuer").raw;
  const thisUpdateMs = timeOf(fields.any("this update"), "this update");
  const next = fields.optional(TAG.utcTime, "next update") ??
    fields.optional(TAG.generalizedTime, "next update");
  const entries = fields.optional(TAG.sequence, "revoked certificates");
  const wrapped = fields.optional(contextTag(0, "constructed"), "extensions");
  fields.end("signed part");
  if (!version && wrapped) return refuse("it has extensions without being version 2");
  return {
    tbs: tbs.raw,
    scheme: schemeOf(parts.inside(algorithm)),
    signature: signature.bytes,
    issuer,
    thisUpdateMs,
    nextUpdateMs: next ? timeOf(next, "next update") : Infinity,
    scope: wrapped ? scopeOf(fields.inside(wrapped)) : "all",
    serials: entries ? serialsOf(fields.inside(entries)) : new Set(),
  };
}

function serialsOf(entries: DerReader): ReadonlySet<string> {
  const serials = new Set<string>();
  while (!entries.done) {
    const entry = entries.enter(TAG.sequence, "entry");
    const serial = integerOf(entry.read(TAG.integer, "entry's serial number"), "serial number", 64);
    const date = entry.any("revocation date");
    if (date.tag !== TAG.utcTime && date.tag !== TAG.generalizedTime) {
      refuse("an entry has no revocation date");
    }
    if (!entry.done) checkEntryExtensions(entry);
    entry.end("entry");
    const [first = 0] = serial;
    const digits = serial.length > 1 && first === 0 ? serial.subarray(1) : serial;
    serials.add(Buffer.from(digits).toString("latin1"));
  }
  return serials;
}

function checkEntryExtensions(entry: DerReader): void {
  for (const { oid, critical, value } of extensionsOf(entry)) {
    if (oid === OID.certificateIssuer) refuse(INDIRECT);
    if (oid === OID.reasonCode) {
      const reason = value.any("reason").body[0];
      value.end("reason");
      if (reason === REMOVE_FROM_CRL) refuse(DELTA);
    } else if (critical && oid !== OID.invalidityDate) {
      refuse(`an entry has a critical extension that is not understood (${oid})`);
    }
  }
}

const REMOVE_FROM_CRL = 8;
const INDIRECT = "it is indirect: it lists certificates of other issuers; give one list per CA";
const DELTA = "it is a delta, which says only what changed; give the whole list";

function scopeOf(wrapped: DerReader): CrlScope {
  let scope: CrlScope = "all";
  for (const { oid, critical, value } of extensionsOf(wrapped)) {
    switch (oid) {
      case OID.deltaCrlIndicator:
        return refuse(DELTA);
      case OID.issuingDistributionPoint:
        scope = scopeOfDistributionPoint(value);
        break;
      case OID.crlNumber:
      case OID.authorityKeyId:
        break;
      default:
        if (critical) refuse(`it has a critical extension that is not understood (${oid})`);
    }
  }
  wrapped.end("extensions");
  return scope;
}

/** `[0]` to `[5]` of RFC 5280 5.2.5. What covers a part that we cannot tell apart is refused. */
function scopeOfDistributionPoint(value: DerReader): CrlScope {
  const fields = value.enter(TAG.sequence, "issuing distribution point");
  value.end("issuing distribution point");
  const point = fields.optional(contextTag(0, "constructed"), "distribution point");
  const flag = (number: number): boolean => {
    const element = fields.optional(contextTag(number, "primitive"), "scope");
    return element !== undefined && booleanOf(element, "scope");
  };
  const leaves = flag(1);
  const cas = flag(2);
  const reasons = fields.optional(contextTag(3, "primitive"), "reasons");
  const indirect = flag(4);
  const attributes = flag(5);
  fields.end("issuing distribution point");
  if (indirect) return refuse(INDIRECT);
  if (reasons) return refuse("it lists some reasons of revocation only; give the whole list");
  if (attributes || (leaves && cas)) return refuse("it is not about certificates of peers");
  if (point) {
    return refuse("it belongs to one distribution point, one part of several; give the whole list");
  }
  return leaves ? "leaves" : cas ? "cas" : "all";
}

interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: DerReader;
}

function extensionsOf(wrapped: DerReader): readonly Extension[] {
  const list = wrapped.enter(TAG.sequence, "extensions");
  const found = new Map<string, Extension>();
  while (!list.done) {
    const extension = list.enter(TAG.sequence, "extension");
    const oid = oidOf(extension.read(TAG.oid, "extension id"), "extension id");
    const flag = extension.optional(TAG.boolean, "critical flag");
    const value = extension.read(TAG.octetString, "extension value");
    extension.end("extension");
    if (found.has(oid)) return refuse(`extension ${oid} appears twice`);
    if (found.size >= EXTENSION_LIMIT) {
      return refuse(`it has more than ${EXTENSION_LIMIT} extensions`);
    }
    const critical = flag !== undefined && booleanOf(flag, "critical flag");
    found.set(oid, { oid, critical, value: new DerReader(value.body) });
  }
  return [...found.values()];
}

/** Refuses what is inside of a list; `readCrl` adds which one. */
function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", fact);
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
