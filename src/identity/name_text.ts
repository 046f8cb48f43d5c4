/**
 * A name of a certificate for people and header fields: `CN=web,O=example` (RFC 2253 in OpenSSL's form: the
 * most specific attribute first, bytes other than printable ASCII as `\XX`).
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type DerElement, TAG } from "../wire/mod.ts";
import { attributesOf } from "./alt_names.ts";

const SHORT_NAMES: Readonly<Record<string, string>> = {
  "2.5.4.3": "CN",
  "2.5.4.4": "SN",
  "2.5.4.5": "serialNumber",
  "2.5.4.6": "C",
  "2.5.4.7": "L",
  "2.5.4.8": "ST",
  "2.5.4.9": "street",
  "2.5.4.10": "O",
  "2.5.4.11": "OU",
  "2.5.4.12": "title",
  "2.5.4.42": "GN",
  "0.9.2342.19200300.100.1.1": "UID",
  "0.9.2342.19200300.100.1.25": "DC",
  "1.2.840.113549.1.9.1": "emailAddress",
};

/** String types whose bytes are ASCII or UTF-8; others are shown as their DER. */
const TEXTS: readonly number[] = [TAG.utf8String, 0x13, 0x16, 0x1a];

/** `name` is DER. The result is printable ASCII; "": it is empty, or no name. Never throws. */
export function nameText(name: Uint8Array): string {
  try {
    return attributesOf(name)
      .map((attributes) => attributes.map(attributeText).reverse().join("+"))
      .reverse().join(",");
  } catch {
    // A partial name could be read as another one.
    return "";
  }
}

function attributeText(
  { oid, value }: { readonly oid: string; readonly value: DerElement },
): string {
  const short = SHORT_NAMES[oid];
  if (short === undefined || !TEXTS.includes(value.tag)) {
    return `${short ?? oid}=#${hex(value.raw)}`;
  }
  return `${short}=${escaped(value)}`;
}

function escaped({ body }: DerElement): string {
  let text = "";
  body.forEach((byte, at) => {
    const character = String.fromCharCode(byte);
    const last = at === body.length - 1;
    if (byte < 0x20 || byte > 0x7e) text += `\\${hex(Uint8Array.of(byte))}`;
    else if (',+"\\<>;'.includes(character)) text += `\\${character}`;
    else if (character === "#" && at === 0) text += "\\#";
    else if (character === " " && (at === 0 || last)) text += "\\ ";
    else text += character;
  });
  return text;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex").toUpperCase();
}
