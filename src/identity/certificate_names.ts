/** The names of a certificate. One that is not printable ASCII is left out: no rule matches it. @module */

import { Buffer } from "node:buffer";
import { canonicalIpText } from "../base/mod.ts";
import { asciiOf, contextTag, type DerElement, DerReader, oidOf, TAG } from "../wire/mod.ts";
import type { Certificate } from "./certificate.ts";
import { OID } from "./oids.ts";

export interface AltNames {
  /** In the certificate's spelling. */
  readonly dns: readonly string[];
  readonly uris: readonly string[];
  readonly emails: readonly string[];
  /** Canonical text. */
  readonly ips: readonly string[];
  /** Text values only. */
  readonly others: readonly { readonly oid: string; readonly value: string }[];
}

type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : never };

const PRINTABLE_STRING = 0x13;
const IA5_STRING = 0x16;
const VISIBLE_STRING = 0x1a;

/** Never throws for a parsed certificate, whose list is known to be well-formed. */
export function altNamesOf(certificate: Pick<Certificate, "altNames">): AltNames {
  const names: Writable<AltNames> = { dns: [], uris: [], emails: [], ips: [], others: [] };
  if (!certificate.altNames) return names;
  const list = new DerReader(certificate.altNames).enter(TAG.sequence, "alternative names");
  while (!list.done) {
    const element = list.any("alternative name");
    switch (element.tag) {
      case contextTag(0, "constructed"): {
        const other = attempt(() => otherNameOf(list.inside(element)));
        if (other) names.others.push(other);
        break;
      }
      case contextTag(1, "primitive"):
        push(names.emails, textOf(element));
        break;
      case contextTag(2, "primitive"):
        push(names.dns, textOf(element));
        break;
      case contextTag(6, "primitive"):
        push(names.uris, textOf(element));
        break;
      case contextTag(7, "primitive"):
        push(names.ips, canonicalIp(element.body));
        break;
    }
  }
  return names;
}

/** The last common name of a subject, which is the most specific; `undefined`: there is no text. */
export function commonNameOf(certificate: Pick<Certificate, "subject">): string | undefined {
  return attempt(() => {
    const found = attributesOf(certificate.subject).flat()
      .findLast(({ oid }) => oid === OID.commonName);
    return found && stringOf(found.value);
  });
}

/** The attributes of a name in DER, by their sets. Throws for invalid DER. */
function attributesOf(
  name: Uint8Array,
): readonly (readonly { readonly oid: string; readonly value: DerElement }[])[] {
  const sets = [];
  const names = new DerReader(name).enter(TAG.sequence, "name");
  while (!names.done) {
    const attributes = [];
    const set = names.enter(TAG.set, "name");
    while (!set.done) {
      const attribute = set.enter(TAG.sequence, "name");
      const oid = oidOf(attribute.read(TAG.oid, "name"), "name");
      attributes.push({ oid, value: attribute.any("name") });
      attribute.end("name");
    }
    sets.push(attributes);
  }
  return sets;
}

function otherNameOf(fields: DerReader): AltNames["others"][number] | undefined {
  const oid = oidOf(fields.read(TAG.oid, "other name"), "other name");
  const value = fields.enter(contextTag(0, "constructed"), "other name").any("other name");
  fields.end("other name");
  const text = stringOf(value);
  return text === undefined ? undefined : { oid, value: text };
}

/** UTF-8, or a string type of ASCII; `undefined` for other types and control characters. */
function stringOf(element: DerElement): string | undefined {
  switch (element.tag) {
    case TAG.utf8String: {
      const text = attempt(() => new TextDecoder("utf-8", { fatal: true }).decode(element.body));
      // deno-lint-ignore no-control-regex -- NUL must not end a comparison early
      return text === undefined || /[\x00-\x1f\x7f]/.test(text) ? undefined : text;
    }
    case PRINTABLE_STRING:
    case IA5_STRING:
    case VISIBLE_STRING:
      return textOf(element);
    default:
      return undefined;
  }
}

/** The text of 4 or 16 bytes (RFC 5280 4.2.1.6) in the spelling of rules; `undefined`: another length. */
function canonicalIp(bytes: Uint8Array): string | undefined {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) return undefined;
  const groups: string[] = [];
  for (let at = 0; at < 16; at += 2) {
    groups.push(((bytes[at] ?? 0) << 8 | (bytes[at + 1] ?? 0)).toString(16));
  }
  return canonicalIpText(groups.join(":"));
}

function textOf({ body }: DerElement): string | undefined {
  return attempt(() => asciiOf(body, "name"));
}

function push(list: string[], name: string | undefined): void {
  if (name !== undefined) list.push(name);
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // An unreadable name matches no rule.
    return undefined;
  }
}

const SHOWN_LIMIT = 3;
const SHOWN_LIMIT_CHARS = 200;

/** Names for a message that no rule fits; short, whatever a peer presents. */
export function shownNames({ dns, uris, emails, ips, others }: AltNames): string {
  const names = [...uris, ...dns, ...emails, ...ips, ...others.map(({ value }) => value)];
  if (names.length === 0) return "it has none";
  const shown = names.slice(0, SHOWN_LIMIT).map((name) =>
    name.length > SHOWN_LIMIT_CHARS ? `${name.slice(0, SHOWN_LIMIT_CHARS)}...` : name
  );
  const more = names.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

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
const TEXTS: readonly number[] = [TAG.utf8String, PRINTABLE_STRING, IA5_STRING, VISIBLE_STRING];

/**
 * A name in DER for people and header fields: `CN=web,O=example` (RFC 2253 in OpenSSL's form: the most
 * specific attribute first, bytes other than printable ASCII as `\XX`). Always printable ASCII; "": it is
 * empty, or no name. Never throws.
 */
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
  const isText = short !== undefined && TEXTS.includes(value.tag);
  return isText ? `${short}=${escaped(value)}` : `${short ?? oid}=#${hex(value.raw)}`;
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
