/**
 * `X-Forwarded-Client-Cert`: passes the proven identity of the caller to the application, in Envoy's form.
 * Elements that the caller sent are kept before ours, as Consul configures it (APPEND_FORWARD), or dropped.
 * They prove nothing, but our element must be the last one for every reader.
 *
 * @module
 */

import { createHash } from "node:crypto";
import {
  altNamesOf,
  type Certificate,
  nameText,
  parseCertificate,
  sameBytes,
} from "../identity/mod.ts";
import { formatPem } from "../wire/mod.ts";
import { addField, fieldOf, type Fields, fieldsOf, removeField, setField } from "./head.ts";
import { forgetReady, makeReady } from "./latin1.ts";

const NAME = "x-forwarded-client-cert";
/** Consul's leaf and two intermediates have 3,000 bytes; a longer chain is not passed on. */
const CHAIN_LIMIT_BYTES = 16 * 1024;

export interface VerifiedCaller {
  /** URI names of our own certificate. */
  readonly by: readonly string[];
  readonly leaf: Certificate;
  /** DER of the other certificates that the caller presented, in its order. */
  readonly chain: readonly Uint8Array[];
}

/** The element for one caller; made once for a connection: it has some 4,000 characters. */
export function clientCertElement({ by, leaf, chain }: VerifiedCaller): string {
  const { uris, dns } = altNamesOf(leaf);
  const cert = encodedPem(leaf.raw);
  const parts = by.map((uri) => `By=${quoted(uri)}`);
  parts.push(`Hash=${createHash("sha256").update(leaf.raw).digest("hex")}`, `Cert="${cert}"`);
  const chainBytes = chain.reduce((sum, der) => sum + der.length, leaf.raw.length);
  if (chainBytes <= CHAIN_LIMIT_BYTES) {
    parts.push(`Chain="${cert}${chain.map(encodedPem).join("")}"`);
  }
  parts.push(`Subject="${nameText(leaf.subject)}"`);
  parts.push(
    ...uris.map((uri) => `URI=${quoted(uri)}`),
    ...dns.map((name) => `DNS=${quoted(name)}`),
  );
  return parts.join(";");
}

/** The element of a caller that is known by its URI only, without its certificate: `By` and `URI`. */
export function namedCallerElement(
  { by, uri }: { readonly by: readonly string[]; readonly uri: string },
): string {
  return [...by.map((own) => `By=${quoted(own)}`), `URI=${quoted(uri)}`].join(";");
}

/** Callers whose elements are kept; each has some 4,000 characters. */
const KEPT = 256;

/** Elements by certificate: the next connection of a caller has the same one, and shares its memory. */
export class ClientCertElements {
  readonly #kept = new Map<string, { readonly leaf: Uint8Array; readonly element: string }>();

  /** `leaf`: verified DER with this serial number; `chain` is called only for a new certificate. */
  of(
    leaf: Uint8Array,
    { by, serial, chain }: {
      readonly by: readonly string[];
      readonly serial: string;
      readonly chain: () => readonly Uint8Array[];
    },
  ): string {
    const key = `${serial} ${by.join()}`;
    const kept = this.#kept.get(key);
    if (kept && sameBytes(kept.leaf, leaf)) return kept.element;
    const element = clientCertElement({ by, leaf: parseCertificate(leaf), chain: chain() });
    this.#forget(key);
    const [oldest] = this.#kept.size < KEPT ? [] : this.#kept.keys();
    if (oldest !== undefined) this.#forget(oldest);
    this.#kept.set(key, { leaf, element });
    makeReady(element);
    return element;
  }

  #forget(key: string): void {
    const kept = this.#kept.get(key);
    if (!kept) return;
    forgetReady(kept.element);
    this.#kept.delete(key);
  }
}

/** Appends the element of the caller to what it sent; `""`: only removes the field. */
export function forwardClientCert(fields: Fields, element: string): void {
  const given = fieldOf(fields, NAME);
  if (given === undefined) {
    if (element !== "") addField(fields, NAME, element);
  } else if (element === "") removeField(fields, NAME);
  else {
    const sound = fieldsOf(fields, NAME).map(soundElements).filter((text) => text !== "");
    setField(fields, NAME, [...sound, element].join(","));
  }
}

/** `Key=value` or `Key="value"`, parts of one element; without escapes, which readers treat differently. */
const PART = '[A-Za-z0-9_-]+=(?:"[^"\\\\]*"|[^",;\\\\\\t ]*)';
const PLAIN_LIST = new RegExp(`^${PART}(?:;${PART}|[\\t ]*,[\\t ]*${PART})*$`);
/** One element, with escapes, up to the comma after it. */
const ANY_PART = '[A-Za-z0-9_-]+=(?:"(?:[^"\\\\]|\\\\.)*"|[^",;\\\\\\t ]*)';
const ELEMENT = new RegExp(`[\\t ]*(${ANY_PART}(?:;${ANY_PART})*)(?:[\\t ]*(?:,|$))`, "y");

/**
 * The elements before the first one that does not parse. An open quote would swallow the element that
 * follows, which is ours; so would a quote that only some readers read as an escaped one.
 */
function soundElements(value: string): string {
  if (PLAIN_LIST.test(value)) return value;
  ELEMENT.lastIndex = 0;
  const elements: string[] = [];
  for (let found = ELEMENT.exec(value); found; found = ELEMENT.exec(value)) {
    const [, element = ""] = found;
    if (element.split('"').length % 2 === 0) break;
    elements.push(element);
  }
  ELEMENT.lastIndex = 0;
  return elements.join(",");
}

function encodedPem(der: Uint8Array): string {
  return formatPem("CERTIFICATE", der).replace(/[\n +/=]/g, encodeURIComponent);
}

/** Quotes a name that would end its part; a lenient authority may issue such a name. */
function quoted(value: string): string {
  return /[,;="]/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
}
