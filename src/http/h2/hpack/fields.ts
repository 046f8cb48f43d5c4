/** Names of fields: the static table, and the meaning of each name for HTTP/2. @module */

import { isAlias } from "../../field_names.ts";

/** Name and value; index 1 is the first. */
export const STATIC_FIELDS: readonly (readonly [name: string, value: string])[] = [
  [":authority", ""],
  [":method", "GET"],
  [":method", "POST"],
  [":path", "/"],
  [":path", "/index.html"],
  [":scheme", "http"],
  [":scheme", "https"],
  [":status", "200"],
  [":status", "204"],
  [":status", "206"],
  [":status", "304"],
  [":status", "400"],
  [":status", "404"],
  [":status", "500"],
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ["accept-language", ""],
  ["accept-ranges", ""],
  ["accept", ""],
  ["access-control-allow-origin", ""],
  ["age", ""],
  ["allow", ""],
  ["authorization", ""],
  ["cache-control", ""],
  ["content-disposition", ""],
  ["content-encoding", ""],
  ["content-language", ""],
  ["content-length", ""],
  ["content-location", ""],
  ["content-range", ""],
  ["content-type", ""],
  ["cookie", ""],
  ["date", ""],
  ["etag", ""],
  ["expect", ""],
  ["expires", ""],
  ["from", ""],
  ["host", ""],
  ["if-match", ""],
  ["if-modified-since", ""],
  ["if-none-match", ""],
  ["if-range", ""],
  ["if-unmodified-since", ""],
  ["last-modified", ""],
  ["link", ""],
  ["location", ""],
  ["max-forwards", ""],
  ["proxy-authenticate", ""],
  ["proxy-authorization", ""],
  ["range", ""],
  ["referer", ""],
  ["refresh", ""],
  ["retry-after", ""],
  ["server", ""],
  ["set-cookie", ""],
  ["strict-transport-security", ""],
  ["transfer-encoding", ""],
  ["user-agent", ""],
  ["vary", ""],
  ["via", ""],
  ["www-authenticate", ""],
];

/** Size of a field in a table, and in a list's limit, in addition to its octets (RFC 7541 4.1). */
export const FIELD_OVERHEAD_BYTES = 32;
/** Default size of a dynamic table in octets (RFC 9113 6.5.2). */
export const DEFAULT_TABLE_BYTES = 4096;

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
  const isName = name.length > 0 && consistsOf(name, NAME_OCTETS);
  return isName && !isAlias(name) ? FieldKind.ordinary : FieldKind.forbidden;
}

/** Octets of a token (RFC 9110 5.6.2) without upper case (RFC 9113 8.2.1). */
const NAME_OCTETS = octets("!#$%&'*+\\-.^_`|~0-9a-z");

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
