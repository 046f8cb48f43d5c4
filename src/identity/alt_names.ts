/**
 * The alternative names of a certificate by their types, and its common name. Read only where rules or
 * people ask for them: the mesh needs the URI alone.
 *
 * A name that is not printable ASCII is left out, NUL included: no rule may match it by accident.
 *
 * @module
 */

import { asciiOf, contextTag, type DerElement, DerReader, oidOf, TAG } from "../wire/mod.ts";
import type { Certificate } from "./certificate.ts";
import { canonicalIp } from "./ip.ts";
import { OID } from "./oids.ts";

export interface AltNames {
  /** As spelled. */
  readonly dns: readonly string[];
  readonly uris: readonly string[];
  readonly emails: readonly string[];
  /** Canonical text. */
  readonly ips: readonly string[];
  /** Values that are text. */
  readonly others: readonly { readonly oid: string; readonly value: string }[];
}

type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : never };

const PRINTABLE_STRING = 0x13;
const IA5_STRING = 0x16;
const VISIBLE_STRING = 0x1a;

/** Never throws for a certificate that was read: the list itself is known to be sound. */
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

/** The last common name of a subject, which is the most specific; `undefined`: none that is text. */
export function commonNameOf(certificate: Pick<Certificate, "subject">): string | undefined {
  return attempt(() => {
    const name = new DerReader(certificate.subject).enter(TAG.sequence, "subject");
    let found: string | undefined;
    while (!name.done) {
      const set = name.enter(TAG.set, "subject");
      while (!set.done) {
        const attribute = set.enter(TAG.sequence, "subject");
        const oid = oidOf(attribute.read(TAG.oid, "subject"), "subject");
        const value = attribute.any("subject");
        if (oid === OID.commonName) found = stringOf(value);
      }
    }
    return found;
  });
}

function otherNameOf(fields: DerReader): AltNames["others"][number] | undefined {
  const oid = oidOf(fields.read(TAG.oid, "other name"), "other name");
  const value = fields.enter(contextTag(0, "constructed"), "other name").any("other name");
  fields.end("other name");
  const text = stringOf(value);
  return text === undefined ? undefined : { oid, value: text };
}

/** UTF-8, or one of the string types that ASCII fits; others, and control characters, give `undefined`. */
function stringOf(element: DerElement): string | undefined {
  switch (element.tag) {
    case TAG.utf8String: {
      const text = attempt(() => new TextDecoder("utf-8", { fatal: true }).decode(element.body));
      // deno-lint-ignore no-control-regex -- NUL above all must not end a comparison early
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
    // What cannot be read is no name that anything could match.
    return undefined;
  }
}

const SHOWN_LIMIT = 3;
const SHOWN_LIMIT_CHARS = 200;

/** Names for people who wonder why no rule fits; short whatever a peer presents. */
export function shownNames({ dns, uris, emails, ips, others }: AltNames): string {
  const names = [...uris, ...dns, ...emails, ...ips, ...others.map(({ value }) => value)];
  if (names.length === 0) return "it has none";
  const shown = names.slice(0, SHOWN_LIMIT).map((name) =>
    name.length > SHOWN_LIMIT_CHARS ? `${name.slice(0, SHOWN_LIMIT_CHARS)}...` : name
  );
  const more = names.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}
