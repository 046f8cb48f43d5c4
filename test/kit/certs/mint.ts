/**
 * Builds and signs certificates: for the embedded agent's CA and for tests. It builds any certificate,
 * sound or not, because tests need the unsound ones; `authority.ts` builds those that Consul issues.
 *
 * @module
 */

import {
  createHash,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign as signBytes,
} from "node:crypto";
import { contextTag } from "../../../src/wire/mod.ts";
import {
  derBits,
  derBoolean,
  derElement,
  derNamedBits,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
  derTime,
  derUnsigned,
} from "../../../src/wire/mod.ts";
import { derExtension, derName, type ExtraExtension, signingSchemeOf } from "./mint_parts.ts";
import { KEY_USAGE_BIT, type KeyUsage, OID, spkiOf } from "../../../src/identity/mod.ts";

export type { ExtraExtension };

export type KeyKind = "ec-p256" | "ec-p384" | "ec-p521" | "rsa-2048" | "rsa-4096" | "ed25519";

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

export interface CertificateOptions {
  /** Key that the certificate is about. */
  readonly publicKey: KeyObject;
  readonly signer: KeyObject;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** A common name; empty or absent gives an empty name, as a secondary datacenter has. */
  readonly subject?: string;
  readonly issuer?: string;
  /** Big-endian; absent gives 16 random bytes. */
  readonly serial?: Uint8Array;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  /** Further alternative names, each the DER of a GeneralName. */
  readonly altNames?: readonly Uint8Array[];
  /** Absent: no basic constraints at all; `false`: CA:FALSE. */
  readonly ca?: false | { readonly pathLength?: number };
  /** Absent: no such extension. */
  readonly keyUsage?: readonly KeyUsage[];
  readonly extendedKeyUsage?: readonly string[];
  /** Absent: no such extension. */
  readonly subjectKeyId?: Uint8Array;
  readonly authorityKeyId?: Uint8Array;
  readonly extensions?: readonly ExtraExtension[];
  /** Absent: SHA-256, or what fits the signer's curve. SHA-1 can be asked for, to be refused. */
  readonly hash?: "sha1" | "sha256" | "sha384" | "sha512";
}

const HOUR_MS = 3_600_000;
/** How Consul dates leaves: a minute back, 72 hours long. */
export const LEAF_BACKDATE_MS = 60_000;
export const LEAF_TTL_MS = 72 * HOUR_MS;
export const ROOT_TTL_MS = 10 * 365 * 24 * HOUR_MS;

export function generateKey(kind: KeyKind = "ec-p256"): KeyPair {
  switch (kind) {
    case "ec-p256":
      return generateKeyPairSync("ec", { namedCurve: "P-256" });
    case "ec-p384":
      return generateKeyPairSync("ec", { namedCurve: "P-384" });
    case "ec-p521":
      return generateKeyPairSync("ec", { namedCurve: "P-521" });
    case "rsa-2048":
      return generateKeyPairSync("rsa", { modulusLength: 2048 });
    case "rsa-4096":
      return generateKeyPairSync("rsa", { modulusLength: 4096 });
    case "ed25519":
      return generateKeyPairSync("ed25519");
  }
}

/** The key id Consul uses: SHA-256 of the public key's DER. */
export function keyIdOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(createHash("sha256").update(spkiOf(publicKey)).digest());
}

/** DER of a signed certificate, version 3. */
export function mintCertificate(options: CertificateOptions): Uint8Array {
  const { publicKey, signer, notBeforeMs, notAfterMs, subject = "", issuer = "" } = options;
  const scheme = signingSchemeOf(signer, options.hash);
  const serial = options.serial ?? new Uint8Array(randomBytes(16)).map((b, i) => i ? b : b & 0x7f);
  const extensions = extensionsOf(options);
  const tbs = derSequence(
    derElement(contextTag(0, "constructed"), derNumber(2)),
    derUnsigned(serial),
    scheme.identifier,
    derName(issuer),
    derSequence(derTime(notBeforeMs), derTime(notAfterMs)),
    derName(subject),
    spkiOf(publicKey),
    ...extensions.length > 0
      ? [derElement(contextTag(3, "constructed"), derSequence(...extensions))]
      : [],
  );
  const signature = new Uint8Array(signBytes(scheme.hash, tbs, signer));
  return derSequence(tbs, scheme.identifier, derBits(signature));
}

function extensionsOf(options: CertificateOptions): Uint8Array[] {
  const { ca, keyUsage, extendedKeyUsage, subjectKeyId, authorityKeyId } = options;
  const { uris = [], dnsNames = [], altNames = [], extensions = [] } = options;
  const built: Uint8Array[] = [];
  if (keyUsage) {
    const bits = derNamedBits(keyUsage.map((name) => KEY_USAGE_BIT[name]));
    built.push(derExtension({ oid: OID.keyUsage, critical: true, value: bits }));
  }
  if (extendedKeyUsage) {
    const oids = extendedKeyUsage.map((name) =>
      derOid(name === "clientAuth" || name === "serverAuth" ? OID[name] : name)
    );
    built.push(
      derExtension({ oid: OID.extendedKeyUsage, critical: false, value: derSequence(...oids) }),
    );
  }
  if (ca !== undefined) {
    const pathLength = ca === false ? undefined : ca.pathLength;
    const value = derSequence(
      ...ca === false ? [] : [derBoolean(true)],
      ...pathLength === undefined ? [] : [derNumber(pathLength)],
    );
    built.push(derExtension({ oid: OID.basicConstraints, critical: true, value }));
  }
  if (subjectKeyId) {
    const value = derOctets(subjectKeyId);
    built.push(derExtension({ oid: OID.subjectKeyId, critical: false, value }));
  }
  if (authorityKeyId) {
    const value = derSequence(derElement(contextTag(0, "primitive"), authorityKeyId));
    built.push(derExtension({ oid: OID.authorityKeyId, critical: false, value }));
  }
  if (uris.length + dnsNames.length + altNames.length > 0) {
    const value = derSequence(
      ...uris.map((uri) => derText(contextTag(6, "primitive"), uri)),
      ...dnsNames.map((name) => derText(contextTag(2, "primitive"), name)),
      ...altNames,
    );
    // Critical when there is no other name (RFC 5280 4.2.1.6).
    built.push(derExtension({ oid: OID.subjectAltName, critical: !options.subject, value }));
  }
  return [...built, ...extensions.map(derExtension)];
}
