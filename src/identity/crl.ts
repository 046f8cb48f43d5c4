/** Revocation lists (RFC 5280 5). Partial ones are refused: they would accept revoked certificates. @module */

import { Buffer } from "node:buffer";
import { messageOf, ProxyError } from "../base/mod.ts";
import {
  booleanOf,
  contextTag,
  DerReader,
  integerOf,
  parsePem,
  smallIntegerOf,
  TAG,
  timeOf,
} from "../wire/mod.ts";
import {
  allowsKeyUsage,
  type Certificate,
  checkAlgorithm,
  readSigned,
  sameBytes,
} from "./certificate.ts";
import { extensionsIn } from "./extensions.ts";
import { OID } from "./oids.ts";
import { isSignedBy, type Signed } from "./signature.ts";
import { refuseValidation } from "./validation.ts";
import { namesFit, validityFault } from "./path.ts";

export const CRL_LIMIT_BYTES: number = 4 << 20;
const CRLS_LIMIT_BYTES = 16 << 20;
const CRLS_LIMIT = 100;

type CrlScope = "all" | "leaves" | "cas";

export interface Crl extends Signed {
  readonly issuer: Uint8Array;
  readonly thisUpdateMs: number;
  /** `Infinity`: the list has no next update. */
  readonly nextUpdateMs: number;
  readonly scope: CrlScope;
  /** For {@link revokes}. */
  readonly serials: ReadonlySet<string>;
}

/** All lists in `pems`; throws `credentials_invalid` that names the list and the fault. */
export function parseCrls(pems: readonly string[]): readonly Crl[] {
  const crls: Crl[] = [];
  let bytes = 0;
  for (const pem of pems) {
    const blocks = parsePem(pem, { what: "revocation list", limitChars: CRL_LIMIT_BYTES * 3 / 2 })
      .filter(({ label }) => label === "X509 CRL");
    if (blocks.length === 0) refuseValidation("revocation list PEM has no X509 CRL block");
    for (const { der } of blocks) {
      bytes += der.length;
      if (bytes > CRLS_LIMIT_BYTES) {
        refuseValidation(`revocation lists have more than ${CRLS_LIMIT_BYTES} bytes together`);
      }
      if (crls.length >= CRLS_LIMIT) {
        refuseValidation(`there are more than ${CRLS_LIMIT} revocation lists`);
      }
      crls.push(parseCrl(der, crls.length + 1));
    }
  }
  return crls;
}

export function revokes(crl: Crl, certificate: Pick<Certificate, "serial">): boolean {
  const bytes = Buffer.from(certificate.serial.replaceAll(":", ""), "hex");
  return crl.serials.has(bytes.toString("latin1"));
}

/** One list, DER; throws `credentials_invalid` with the list's number. */
export function parseCrl(der: Uint8Array, number = 1): Crl {
  try {
    return readList(der);
  } catch (cause) {
    // The DER reader names a certificate in its errors.
    const reason = messageOf(cause).replace(/^Cannot read certificate: /, "");
    const message = `Cannot use revocation list ${number}: ${reason}`;
    throw new ProxyError("credentials_invalid", message, { cause });
  }
}

function readList(der: Uint8Array): Crl {
  if (der.length > CRL_LIMIT_BYTES) {
    return refuse(`it has ${der.length} bytes, more than ${CRL_LIMIT_BYTES}`);
  }
  const outer = new DerReader(new Uint8Array(der));
  const parts = outer.enter(TAG.sequence, "list");
  outer.end("list");
  const { signed, fields, algorithm } = readSigned(parts, "list");
  const version = fields.optional(TAG.integer, "version");
  if (version && smallIntegerOf(version, "version") !== 1) return refuse("it is not version 2");
  checkAlgorithm(fields, algorithm);
  const issuer = fields.read(TAG.sequence, "issuer").raw;
  const thisUpdateMs = timeOf(fields.any("this update"), "this update");
  const next = fields.optional(TAG.utcTime, "next update") ??
    fields.optional(TAG.generalizedTime, "next update");
  const entries = fields.optional(TAG.sequence, "revoked certificates");
  const wrapped = fields.optional(contextTag(0, "constructed"), "extensions");
  fields.end("signed part");
  if (!version && wrapped) return refuse("it has extensions without being version 2");
  return {
    ...signed,
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
  for (const { oid, critical, value } of extensionsIn(entry)) {
    if (oid === OID.certificateIssuer) refuse(INDIRECT);
    if (oid === OID.reasonCode) {
      const reader = new DerReader(value);
      const reason = reader.any("reason").body[0];
      reader.end("reason");
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
  for (const { oid, critical, value } of extensionsIn(wrapped)) {
    switch (oid) {
      case OID.deltaCrlIndicator:
        return refuse(DELTA);
      case OID.issuingDistributionPoint:
        scope = scopeOfDistributionPoint(new DerReader(value));
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

/** `[0]` to `[5]` of RFC 5280 5.2.5. A scope that we cannot distinguish is refused. */
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

/** `parseCrl` adds the number of the list. */
function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", fact);
}

interface RevocationRules {
  /** Lists apply to the leaf only. */
  readonly onlyLeaf: boolean;
  /** Lists past their next update are valid, too. */
  readonly allowExpired: boolean;
}

type RevocationVerdict =
  /** No certificate is revoked, as far as the lists of these times say. */
  | { readonly kind: "good"; readonly fromMs: number; readonly untilMs: number }
  | { readonly kind: "refused"; readonly reason: string };

interface KnownCrl {
  readonly crl: Crl;
  /** The public key that verified the signature. */
  signer: Uint8Array | undefined;
}

/**
 * With any list, every CA of a path must have a current one, as with OpenSSL: a CA without a list could have
 * revoked anything.
 */
export class Revocation {
  readonly #known: readonly KnownCrl[];
  readonly #rules: RevocationRules;

  constructor(crls: readonly Crl[], rules: RevocationRules) {
    this.#known = crls.map((crl) => ({ crl, signer: undefined }));
    this.#rules = rules;
  }

  /**
   * `path` is leaf first, anchor last, and valid at `nowMs`. A list that was made between `nowMs` and
   * `presentMs` is valid.
   */
  judge(path: readonly Certificate[], nowMs: number, presentMs = nowMs): RevocationVerdict {
    let [fromMs, untilMs] = [-Infinity, Infinity];
    if (this.#known.length === 0) return { kind: "good", fromMs, untilMs };
    // The anchor is the operator's choice, whatever is above it.
    for (let at = 0; at < (this.#rules.onlyLeaf ? 1 : path.length - 1); at++) {
      const [certificate, issuer] = [path[at], path[at + 1]];
      if (!certificate || !issuer) break;
      const found = this.#listFor({ certificate, issuer, isLeaf: at === 0, nowMs, presentMs });
      if (typeof found === "string") return { kind: "refused", reason: found };
      if (revokes(found, certificate)) {
        const what = at === 0 ? "its certificate" : "the issuer";
        return { kind: "refused", reason: `${what} with serial ${certificate.serial} is revoked` };
      }
      fromMs = Math.max(fromMs, found.thisUpdateMs);
      untilMs = Math.min(untilMs, found.nextUpdateMs);
    }
    return this.#rules.allowExpired
      ? { kind: "good", fromMs: -Infinity, untilMs: Infinity }
      : { kind: "good", fromMs, untilMs };
  }

  /** The newest valid list of `issuer` for such certificates, or the reason why there is none. */
  #listFor(
    { certificate, issuer, isLeaf, nowMs, presentMs }: {
      readonly certificate: Certificate;
      readonly issuer: Certificate;
      readonly isLeaf: boolean;
      readonly nowMs: number;
      readonly presentMs: number;
    },
  ): Crl | string {
    const name = `the CA with serial ${issuer.serial}`;
    let newest: Crl | undefined;
    let fault: string | undefined;
    for (const known of this.#known) {
      const { crl } = known;
      if (crl.scope === (isLeaf ? "cas" : "leaves")) continue;
      if (!namesFit(crl, issuer) || !this.#isFrom(known, issuer)) continue;
      if (allowsKeyUsage(issuer, "cRLSign") === false) {
        return `${name} may not sign revocation lists`;
      }
      const { thisUpdateMs: notBeforeMs, nextUpdateMs: notAfterMs } = crl;
      const late = this.#rules.allowExpired
        ? undefined
        : validityFault({ notBeforeMs, notAfterMs }, nowMs, presentMs);
      if (late !== undefined) fault ??= `the revocation list of ${name} ${late}`;
      else if (!newest || crl.thisUpdateMs > newest.thisUpdateMs) newest = crl;
    }
    const whose = isLeaf ? "its certificate" : `the issuer with serial ${certificate.serial}`;
    return newest ?? fault ?? `there is no revocation list of ${name}, which vouches for ${whose}`;
  }

  #isFrom(known: KnownCrl, issuer: Certificate): boolean {
    if (known.signer) return sameBytes(known.signer, issuer.spki);
    if (!isSignedBy(known.crl, issuer)) return false;
    known.signer = issuer.spki;
    return true;
  }
}
