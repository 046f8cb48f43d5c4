/** Field names: valid ones (RFC 9110 5.1), those of one connection, and protected ones. @module */

/** Meanings of a field for the codec. */
export const PLAIN = 0;
export const HOST = 1;
export const CONTENT_LENGTH = 2;
export const TRANSFER_ENCODING = 3;
export const CONNECTION = 4;
export const UPGRADE = 5;
export const TE = 6;
export const EXPECT = 7;
export const KEEP_ALIVE = 8;
/** Fields of one connection, which the codec drops. */
export const HOP = 9;

export interface KnownName {
  readonly spelled: string;
  readonly name: string;
  readonly meaning: number;
}

const MEANINGS: Readonly<Record<string, number>> = {
  "host": HOST,
  "content-length": CONTENT_LENGTH,
  "transfer-encoding": TRANSFER_ENCODING,
  "connection": CONNECTION,
  "upgrade": UPGRADE,
  "te": TE,
  "expect": EXPECT,
  "keep-alive": KEEP_ALIVE,
  "proxy-connection": HOP,
  "http2-settings": HOP,
};

/** Common names, so that they are not validated and lowercased again for each head. */
const COMMON = [
  "accept accept-charset accept-encoding accept-language accept-ranges age allow authorization",
  "cache-control content-disposition content-encoding content-language content-location content-range",
  "content-security-policy content-type cookie date dnt etag expires forwarded from grpc-encoding",
  "grpc-accept-encoding grpc-status grpc-message grpc-timeout if-match if-modified-since if-none-match",
  "if-range if-unmodified-since last-modified link location origin pragma priority range referer",
  "retry-after sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest sec-fetch-mode",
  "sec-fetch-site sec-fetch-user sec-websocket-accept sec-websocket-extensions sec-websocket-key",
  "sec-websocket-protocol sec-websocket-version server server-timing set-cookie",
  "strict-transport-security traceparent tracestate trailer upgrade-insecure-requests user-agent vary via",
  "www-authenticate x-b3-parentspanid x-b3-sampled x-b3-spanid x-b3-traceid x-content-type-options",
  "x-envoy-attempt-count x-envoy-upstream-service-time x-forwarded-client-cert x-forwarded-for",
  "x-forwarded-host x-forwarded-port x-forwarded-proto x-frame-options x-powered-by x-real-ip",
  "x-request-id x-xss-protection",
].join(" ").split(" ");

/** Known names, keyed as they are spelled on the wire: `content-type` and `Content-Type`. */
const KNOWN = new Map<string, KnownName>();
for (const name of [...COMMON, ...Object.keys(MEANINGS)]) {
  const proper = name.replace(/(?<![a-z0-9])[a-z]/g, (letter) => letter.toUpperCase());
  for (const spelled of [name, proper]) {
    KNOWN.set(spelled, { spelled, name, meaning: MEANINGS[name] ?? PLAIN });
  }
}
for (const spelled of ["ETag", "DNT", "TE", "WWW-Authenticate", "X-XSS-Protection"]) {
  const name = spelled.toLowerCase();
  KNOWN.set(spelled, { spelled, name, meaning: MEANINGS[name] ?? PLAIN });
}

export function knownName(spelled: string): KnownName | undefined {
  return KNOWN.get(spelled);
}

/** Octets that a token may have (RFC 9110 5.6.2). */
const TOKEN = new Uint8Array(256);
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
  TOKEN[character.charCodeAt(0)] = TOKEN[character.toUpperCase().charCodeAt(0)] = 1;
}

export function isToken(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (TOKEN[text.charCodeAt(i)] !== 1) return false;
  return text.length > 0;
}

/**
 * Whether proxies or applications trust the value of a field of that name (lower case). Such a field is
 * neither removed because `Connection` names it, nor added by trailers (envoy.md 2.8, 3.3).
 */
export function isProtected(name: string): boolean {
  // Called for every trailer: the first letter rules out most names.
  switch (name.charCodeAt(0)) {
    case 0x61: // authorization
    case 0x63: // cookie
    case 0x68: // host
      return PROTECTED.has(name);
    case X:
      return name.startsWith("x-forwarded-");
    default:
      return false;
  }
}
const PROTECTED = new Set(["authorization", "host", "cookie"]);

/**
 * Whether an application that puts names into variables (CGI and its heirs) confuses the two names (both
 * lower case): all of them read `-` as `_`, some read every character but letters and digits so.
 */
export function isAliasOf(name: string, other: string): boolean {
  if (name.length !== other.length || name === other) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    const meant = other.charCodeAt(i);
    if (code !== meant && (isAlphanumeric(code) || isAlphanumeric(meant))) return false;
  }
  return true;
}

function isAlphanumeric(code: number): boolean {
  return code >= 0x61 && code <= 0x7a || code >= 0x30 && code <= 0x39;
}

/** Names (lower case) that such an application takes for fields that frame a message. */
export function isAlias(name: string): boolean {
  return isAliasOf(name, "content-length") || isAliasOf(name, "transfer-encoding");
}

/** Names, with their aliases, of fields that proxies set and that applications trust. */
const VOUCHED = /^x[^a-z0-9](?:forwarded[^a-z0-9]|envoy[^a-z0-9]|request[^a-z0-9]id$)/;
const OTHER_THAN_HYPHEN = /[^a-z0-9-]/;
const X = 0x78;

/** Whether a proxy vouches for a field of that name (lower case), or for one that it is an alias of. */
export function isVouched(name: string): boolean {
  return name.charCodeAt(0) === X && VOUCHED.test(name);
}

/** Whether it is such an alias. */
export function isVouchedAlias(name: string): boolean {
  return OTHER_THAN_HYPHEN.test(name) && isVouched(name);
}

/** Host, with or without a port: no user information, and no character that ends it for another reader. */
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::[0-9]{0,5})?$/;

const PORT_ALONE = /^:[0-9]{1,5}$/;

/** Whether `:authority` or an absolute target may have this value. */
export function isAuthority(text: string): boolean {
  return AUTHORITY.test(text);
}

/**
 * Whether `Host` may have this value. A port alone (RFC 3986 3.2.2 lets the host be empty) is what a Consul
 * agent writes when it checks a service through a proxy that is registered without an address.
 */
export function isHost(text: string): boolean {
  return AUTHORITY.test(text) || PORT_ALONE.test(text);
}

/** Whether a configured change may write that field (lower case): it is plain, and no alias. */
export function isPlainName(name: string): boolean {
  return isToken(name) && (KNOWN.get(name)?.meaning ?? PLAIN) === PLAIN && !isAlias(name);
}

/** Whether a text may be a value in {@link Fields}: no control character, no padding, latin1. */
export function isValue(text: string): boolean {
  const last = text.length - 1;
  for (let i = 0; i <= last; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 ? code !== TAB : code === 0x7f || code > 0xff) return false;
  }
  return last < 0 || !isBlank(text.charCodeAt(0)) && !isBlank(text.charCodeAt(last));
}

/**
 * The text from `from` to `to` without the white space around it (RFC 9110 5.6.1, 5.6.3); each character is
 * looked at once. An octet of UTF-8 is not white space (`trim()` removes 0xA0).
 */
export function withoutBlanks(text: string, from = 0, to = text.length): string {
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (from < to && isBlank(text.charCodeAt(to - 1))) to--;
  return text.substring(from, to);
}

const TAB = 9;
export const isBlank = (code: number | undefined): boolean => code === TAB || code === 0x20;
