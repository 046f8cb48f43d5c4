/**
 * The meaning of a field's name for HTTP/2, found once for each name that a table keeps.
 *
 * @module
 */

import { isAlias } from "../../field_names.ts";

/** Treatment of a field by the codec; names without a kind of their own belong to the application. */
export const FieldKind = {
  ordinary: 0,
  method: 1,
  scheme: 2,
  authority: 3,
  path: 4,
  protocol: 5,
  status: 6,
  contentLength: 7,
  cookie: 8,
  expect: 9,
  host: 10,
  te: 11,
  /** Not a valid name, or one that HTTP/2 forbids: the message is malformed. */
  forbidden: 12,
} as const;
export type FieldKind = typeof FieldKind[keyof typeof FieldKind];

export interface FieldName {
  readonly text: string;
  readonly kind: FieldKind;
}

const KINDS: ReadonlyMap<string, FieldKind> = new Map([
  [":method", FieldKind.method],
  [":scheme", FieldKind.scheme],
  [":authority", FieldKind.authority],
  [":path", FieldKind.path],
  [":protocol", FieldKind.protocol],
  [":status", FieldKind.status],
  ["content-length", FieldKind.contentLength],
  ["cookie", FieldKind.cookie],
  ["expect", FieldKind.expect],
  ["host", FieldKind.host],
  ["te", FieldKind.te],
  // Fields of one HTTP/1.1 connection (RFC 9113 8.2.2).
  ["connection", FieldKind.forbidden],
  ["keep-alive", FieldKind.forbidden],
  ["proxy-connection", FieldKind.forbidden],
  ["transfer-encoding", FieldKind.forbidden],
  ["upgrade", FieldKind.forbidden],
  ["http2-settings", FieldKind.forbidden],
]);

export function kindOfField(name: string): FieldKind {
  const known = KINDS.get(name);
  if (known !== undefined) return known;
  return isFieldName(name) && !isAlias(name) ? FieldKind.ordinary : FieldKind.forbidden;
}

/** Octets of a token (RFC 9110 5.6.2). */
export const TOKEN_OCTETS: Uint8Array = octets("!#$%&'*+\\-.^_`|~0-9A-Za-z");
const NAME_OCTETS = octets("!#$%&'*+\\-.^_`|~0-9a-z");

/** One token without upper case (RFC 9113 8.2.1). */
function isFieldName(name: string): boolean {
  return name.length > 0 && consistsOf(name, NAME_OCTETS);
}

export function consistsOf(text: string, allowed: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (allowed[text.charCodeAt(i)] !== 1) return false;
  return true;
}

/** A flag for each octet, set for those in `characters`, the inside of a regular expression's class. */
export function octets(characters: string): Uint8Array {
  const pattern = new RegExp(`[${characters}]`);
  return Uint8Array.from(
    { length: 256 },
    (_, octet) => pattern.test(String.fromCharCode(octet)) ? 1 : 0,
  );
}
