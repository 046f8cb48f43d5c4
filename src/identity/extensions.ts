/** The extensions of a certificate that bear on trust. Unknown critical ones are listed. @module */

import { Buffer } from "node:buffer";
import { ProxyError } from "../base/mod.ts";
import {
  asciiOf,
  bitStringOf,
  booleanOf,
  contextTag,
  DerReader,
  oidOf,
  smallIntegerOf,
  TAG,
} from "../wire/mod.ts";
import { OID } from "./oids.ts";

export interface Extensions {
  /** URI alternative names, in order. */
  readonly sanUris: readonly string[];
  /** DER of the alternative names, for `altNamesOf`. */
  readonly altNames?: Uint8Array;
  /** Absent: no CA. */
  readonly basicConstraints?: { readonly ca: boolean; readonly pathLength?: number };
  /** Bit `n` of the extension as `1 << n`. */
  readonly keyUsage?: number;
  readonly keyUsageCritical?: boolean;
  /** Object identifiers. */
  readonly extendedKeyUsage?: readonly string[];
  /** Hex. */
  readonly subjectKeyId?: string;
  readonly authorityKeyId?: string;
  /** Unknown critical extensions, and name constraints, critical or not. */
  readonly notUnderstood: readonly string[];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const EXTENSION_LIMIT = 40;
const NAME_LIMIT = 100;
const NAME_CONSTRAINTS = "2.5.29.30";

interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Uint8Array;
}

/** The extensions of a certificate, a revocation list or an entry of one: `SEQUENCE OF Extension`. */
export function extensionsIn(wrapped: DerReader): readonly Extension[] {
  const list = wrapped.enter(TAG.sequence, "extensions");
  const found = new Map<string, Extension>();
  while (!list.done) {
    const extension = list.enter(TAG.sequence, "extension");
    const oid = oidOf(extension.read(TAG.oid, "extension id"), "extension id");
    const flag = extension.optional(TAG.boolean, "critical flag");
    const critical = flag !== undefined && booleanOf(flag, "critical flag");
    const { body: value } = extension.read(TAG.octetString, "extension value");
    extension.end("extension");
    // With two of a kind, two readers could see two different certificates (RFC 5280 4.2).
    if (found.has(oid)) fail(`extension ${oid} appears twice`);
    found.set(oid, { oid, critical, value });
    if (found.size > EXTENSION_LIMIT) fail(`it has more than ${EXTENSION_LIMIT} extensions`);
  }
  return [...found.values()];
}

/** `undefined`: the certificate has no extensions. */
export function readExtensions(wrapped: DerReader | undefined): Extensions {
  const notUnderstood: string[] = [];
  const found: Mutable<Extensions> = { sanUris: [], notUnderstood };
  if (!wrapped) return found;
  const extensions = extensionsIn(wrapped);
  wrapped.end("extensions");
  for (const { oid, critical, value } of extensions) {
    const understood = readKnown(found, oid, new DerReader(value));
    if (oid === OID.subjectAltName) found.altNames = value;
    if (oid === OID.keyUsage) found.keyUsageCritical = critical;
    if (!understood && (critical || oid === NAME_CONSTRAINTS)) notUnderstood.push(oid);
  }
  return found;
}

function readKnown(found: Mutable<Extensions>, oid: string, value: DerReader): boolean {
  switch (oid) {
    case OID.subjectAltName:
      found.sanUris = readAltNames(value);
      break;
    case OID.basicConstraints:
      found.basicConstraints = readBasicConstraints(value);
      break;
    case OID.keyUsage:
      found.keyUsage = readKeyUsage(value);
      break;
    case OID.extendedKeyUsage:
      found.extendedKeyUsage = readExtendedKeyUsage(value);
      break;
    case OID.subjectKeyId:
      found.subjectKeyId = hex(value.read(TAG.octetString, "subject key id").body);
      break;
    case OID.authorityKeyId: {
      const id = readAuthorityKeyId(value);
      if (id !== undefined) found.authorityKeyId = id;
      break;
    }
    case OID.certificatePolicies:
      // Policies restrict nothing without policy constraints, which are not understood.
      return true;
    default:
      return false;
  }
  value.end("extension value");
  return true;
}

/** The URIs among them. */
function readAltNames(value: DerReader): readonly string[] {
  const names = value.enter(TAG.sequence, "alternative names");
  const sanUris: string[] = [];
  let others = 0;
  while (!names.done) {
    const { tag, body } = names.any("alternative name");
    const number = tag & 0x1f;
    if ((tag & 0xc0) !== 0x80 || number > 8) fail("an alternative name has an unknown type");
    if (tag === contextTag(6, "primitive")) sanUris.push(asciiOf(body, "URI alternative name"));
    else if (number === 6) fail("a URI alternative name has an unexpected type");
    else others++;
    if (sanUris.length + others > NAME_LIMIT) fail(`it has more than ${NAME_LIMIT} names`);
  }
  if (sanUris.length + others === 0) fail("alternative names are empty");
  return sanUris;
}

function readBasicConstraints(value: DerReader): NonNullable<Extensions["basicConstraints"]> {
  const fields = value.enter(TAG.sequence, "basic constraints");
  const flag = fields.optional(TAG.boolean, "CA flag");
  const length = fields.optional(TAG.integer, "path length");
  fields.end("basic constraints");
  const ca = flag !== undefined && booleanOf(flag, "CA flag");
  if (length === undefined) return { ca };
  if (!ca) return fail("it has a path length without being a CA");
  return { ca, pathLength: smallIntegerOf(length, "path length") };
}

function readKeyUsage(value: DerReader): number {
  const { bytes } = bitStringOf(value.read(TAG.bitString, "key usage"), "key usage");
  if (bytes.length > 2) return fail("key usage has too many bits");
  let bits = 0;
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    if ((bytes[bit >> 3] ?? 0) & (0x80 >> (bit & 7))) bits |= 1 << bit;
  }
  return bits;
}

function readExtendedKeyUsage(value: DerReader): readonly string[] {
  const list = value.enter(TAG.sequence, "extended key usage");
  const oids: string[] = [];
  while (!list.done) {
    oids.push(oidOf(list.read(TAG.oid, "extended key usage"), "extended key usage"));
    if (oids.length > NAME_LIMIT) fail(`it has more than ${NAME_LIMIT} extended key usages`);
  }
  if (oids.length === 0) fail("extended key usage is empty");
  return oids;
}

function readAuthorityKeyId(value: DerReader): string | undefined {
  const fields = value.enter(TAG.sequence, "authority key id");
  const id = fields.optional(contextTag(0, "primitive"), "authority key id");
  // The issuer's name and serial, which may follow, are no better hint than the id.
  return id && hex(id.body);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

export function fail(fact: string): never {
  throw new ProxyError("identity_invalid", `Cannot read certificate: ${fact}`);
}
