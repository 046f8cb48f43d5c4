/**
 * The certificates inside a serialised TLS session. Bun shows a peer's leaf but not the other
 * certificates it presented; the session does: an SSL_SESSION structure keeps the leaf in field [3] and
 * everything after it in field [19] (BoringSSL, `ssl_asn1.cc`). Other fields, keys included, are
 * skipped.
 *
 * @module
 */

const SEQUENCE = 0x30;
const PEER_CHAIN = 0xb3;
/** More than any sane chain; certificates beyond it are ignored. */
const MAX_CERTIFICATES = 32;

/** DER of the intermediates as presented, without the leaf; empty: there are none. */
export function presentedCertificates(session: Uint8Array): Uint8Array[] {
  const outer = element(session, 0);
  if (!outer || outer.tag !== SEQUENCE) return [];
  for (let at = outer.start; at < outer.end;) {
    const field = element(session, at);
    if (!field) return [];
    if (field.tag === PEER_CHAIN) return certificates(session, field.start, field.end);
    at = field.end;
  }
  return [];
}

function certificates(session: Uint8Array, start: number, end: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  for (let at = start; at < end && found.length < MAX_CERTIFICATES;) {
    const certificate = element(session, at);
    if (!certificate || certificate.tag !== SEQUENCE || certificate.end > end) return found;
    found.push(session.subarray(at, certificate.end));
    at = certificate.end;
  }
  return found;
}

interface Element {
  readonly tag: number;
  readonly start: number;
  readonly end: number;
}

/** One DER element with a single-byte tag; undefined: it does not fit. */
function element(bytes: Uint8Array, at: number): Element | undefined {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined) return undefined;
  let start = at + 2;
  let length = first;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 3) return undefined;
    length = 0;
    for (let index = 0; index < count; index++) {
      const byte = bytes[start++];
      if (byte === undefined) return undefined;
      length = length * 256 + byte;
    }
  }
  return start + length <= bytes.length ? { tag, start, end: start + length } : undefined;
}
