/**
 * A name of a certificate as people and header fields have it: `CN=web,O=example` (RFC 2253, as OpenSSL
 * writes it: the most specific first, what is no printable ASCII as `\XX`).
 *
 * @module
 */

import { type DerElement, DerReader, oidOf, TAG } from "../wire/mod.ts";

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

/** `name`: DER of it. Printable ASCII whatever it holds; `""`: it is empty, or none. Never throws. */
export function nameText(name: Uint8Array): string {
  try {
    const relative: string[] = [];
    const names = new DerReader(name).enter(TAG.sequence, "name");
    while (!names.done) {
      const attributes: string[] = [];
      const set = names.enter(TAG.set, "name");
      while (!set.done) attributes.unshift(attributeText(set.enter(TAG.sequence, "name")));
      relative.unshift(attributes.join("+"));
    }
    return relative.join(",");
  } catch {
    // Half a name could be taken for another one.
    return "";
  }
}

function attributeText(attribute: DerReader): string {
  const oid = oidOf(attribute.read(TAG.oid, "name"), "name");
  const value = attribute.any("name");
  attribute.end("name");
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
  return Array.from(bytes, (byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join("");
}
