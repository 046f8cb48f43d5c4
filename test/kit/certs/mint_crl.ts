/** Builds and signs revocation lists for tests, sound or not. @module */

import { type KeyObject, sign as signBytes } from "node:crypto";
import { contextTag, formatPem } from "../../../src/wire/mod.ts";
import {
  derBits,
  derElement,
  derNumber,
  derSequence,
  derTime,
  derUnsigned,
} from "../../../src/wire/der_writer.ts";
import {
  derExtension,
  derName,
  type ExtraExtension,
  type SigningHash,
  signingSchemeOf,
} from "./mint_parts.ts";

interface RevokedEntry {
  /** As certificates show it: hex, with or without colons. */
  readonly serial: string;
  readonly extensions?: readonly ExtraExtension[];
}

export interface CrlOptions {
  readonly signer: KeyObject;
  /** Common name of the CA; absent: the empty name. */
  readonly issuer?: string;
  /** DER of the CA's subject, in place of `issuer`. */
  readonly issuerDer?: Uint8Array;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs?: number;
  readonly revoked?: readonly (string | RevokedEntry)[];
  readonly extensions?: readonly ExtraExtension[];
  /** Version 1 has no extensions. */
  readonly version?: 1 | 2;
  readonly hash?: SigningHash;
}

/** DER of a signed list. */
export function mintCrl(options: CrlOptions): Uint8Array {
  const { signer, issuer = "", thisUpdateMs, nextUpdateMs, revoked = [] } = options;
  const { extensions = [], version = 2 } = options;
  const scheme = signingSchemeOf(signer, options.hash);
  const tbs = derSequence(
    ...version === 2 ? [derNumber(1)] : [],
    scheme.identifier,
    options.issuerDer ?? derName(issuer),
    derTime(thisUpdateMs),
    ...nextUpdateMs === undefined ? [] : [derTime(nextUpdateMs)],
    // An empty list is left out (RFC 5280 5.1.2.6).
    ...revoked.length === 0
      ? []
      : [derSequence(...revoked.map((entry) => entryOf(entry, thisUpdateMs)))],
    ...extensions.length === 0
      ? []
      : [derElement(contextTag(0, "constructed"), derSequence(...extensions.map(derExtension)))],
  );
  return derSequence(
    tbs,
    scheme.identifier,
    derBits(new Uint8Array(signBytes(scheme.hash, tbs, signer))),
  );
}

/** A revocation list as PEM. */
export function mintCrlPem(options: CrlOptions): string {
  return formatPem("X509 CRL", mintCrl(options));
}

function entryOf(entry: string | RevokedEntry, revokedMs: number): Uint8Array {
  const { serial, extensions = [] } = typeof entry === "string" ? { serial: entry } : entry;
  const written = serial.replaceAll(":", "");
  // Some write numbers without their leading zeros.
  const digits = written.length % 2 === 0 ? written : `0${written}`;
  const bytes = Uint8Array.from(digits.match(/../g) ?? [], (hex) => parseInt(hex, 16));
  return derSequence(
    derUnsigned(bytes),
    derTime(revokedMs),
    ...extensions.length === 0 ? [] : [derSequence(...extensions.map(derExtension))],
  );
}
