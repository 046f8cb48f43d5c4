/** Certificate signing requests (PKCS #10), sound ones and others. @module */

import { type KeyObject, sign } from "node:crypto";
import {
  derBits,
  derBoolean,
  derElement,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
} from "../../../src/wire/der_writer.ts";
import type { KeyPair } from "./mint.ts";
import { derName, signingSchemeOf } from "./mint_parts.ts";
import { OID, spkiOf } from "../../../src/identity/mod.ts";
import { contextTag, formatPem, TAG } from "../../../src/wire/mod.ts";

export interface RequestedNames {
  readonly subject?: string;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ips?: readonly (readonly number[])[];
  /** Also ask to be a CA. */
  readonly ca?: boolean;
  /** Signs in place of the request's own key. */
  readonly signer?: KeyObject;
}

/** PEM of a request for `key`. */
export function mintRequest(key: KeyPair, names: RequestedNames): string {
  const { uris = [], dnsNames = [], ips = [], ca = false, subject = "" } = names;
  const altNames = [
    ...dnsNames.map((name) => derText(contextTag(2, "primitive"), name)),
    ...ips.map((ip) => derElement(contextTag(7, "primitive"), Uint8Array.from(ip))),
    ...uris.map((uri) => derText(contextTag(6, "primitive"), uri)),
  ];
  const extension = (oid: string, value: Uint8Array) => derSequence(derOid(oid), derOctets(value));
  const extensions = [
    ...altNames.length > 0 ? [extension(OID.subjectAltName, derSequence(...altNames))] : [],
    ...ca ? [extension(OID.basicConstraints, derSequence(derBoolean(true)))] : [],
  ];
  const asked = derSequence(
    derOid("1.2.840.113549.1.9.14"),
    derElement(TAG.set, derSequence(...extensions)),
  );
  const info = derSequence(
    derNumber(0),
    derName(subject),
    spkiOf(key.publicKey),
    derElement(contextTag(0, "constructed"), ...extensions.length > 0 ? [asked] : []),
  );
  const signer = names.signer ?? key.privateKey;
  const scheme = signingSchemeOf(signer);
  const signature = new Uint8Array(sign(scheme.hash, info, signer));
  return formatPem("CERTIFICATE REQUEST", derSequence(info, scheme.identifier, derBits(signature)));
}
