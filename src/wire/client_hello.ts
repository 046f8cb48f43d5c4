/** The first message of a TLS client (RFC 8446 4.1.2): the fields that choose a certificate. @module */

export interface ClientHello {
  /** Lower case, without a trailing dot; undefined: the client named no host. */
  readonly serverName: string | undefined;
  /** `SignatureScheme` numbers in the client's order (RFC 8446 4.2.3); empty: it did not say. */
  readonly signatureAlgorithms: readonly number[];
  readonly alpn: readonly string[];
}

export type ClientHelloReading =
  | { readonly kind: "complete"; readonly hello: ClientHello }
  /** A beginning of one: more bytes are needed. */
  | { readonly kind: "partial" }
  | { readonly kind: "invalid"; readonly reason: string };

/** A larger message is refused; with post-quantum keys one has about 2 KiB. */
const MESSAGE_LIMIT_BYTES = 16 * 1024;
/** All records with their headers of five bytes each; a client may send tiny records. */
export const CLIENT_HELLO_LIMIT_BYTES = 20 * 1024;

const RECORD_HEADER = 5;
const RECORD_LIMIT_BYTES = 16 * 1024;
const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const MESSAGE_HEADER = 4;
const EXTENSION = { serverName: 0, signatureAlgorithms: 13, alpn: 16 } as const;
const HOST_NAME = 0;
const NAME_LIMIT = 253;
/** Letters, digits, hyphens and the underscore that internal names have; labels of at most 63. */
const DNS_NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
const PLAIN_HTTP = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) /;

const PARTIAL: ClientHelloReading = { kind: "partial" };

/** Never throws. Bytes after the message are ignored. */
export function readClientHello(bytes: Uint8Array): ClientHelloReading {
  try {
    const message = messageIn(bytes);
    return message ? { kind: "complete", hello: helloIn(message) } : PARTIAL;
  } catch (error) {
    if (error instanceof Malformed) return { kind: "invalid", reason: error.message };
    throw error;
  }
}

/**
 * The whole handshake message without its header, across any number of records. The search begins anew
 * with every arrival, so nothing is copied before the message is whole.
 */
function messageIn(bytes: Uint8Array): Uint8Array | undefined {
  let size = 0;
  let wanted = MESSAGE_HEADER;
  for (let at = 0; at < bytes.length;) {
    checkRecordHeader(bytes, at);
    if (at + RECORD_HEADER > bytes.length) break;
    const length = uint16(bytes, at + 3);
    if (length === 0) throw new Malformed("the client sent an empty handshake record");
    if (length > RECORD_LIMIT_BYTES) throw new Malformed("the client sent an oversized TLS record");
    const start = at + RECORD_HEADER;
    const end = Math.min(start + length, bytes.length);
    // The message's own header may lie in different records.
    for (let index = start; size + index - start < MESSAGE_HEADER && index < end; index++) {
      wanted = wantedBytes(wanted, size + index - start, byteAt(bytes, index));
    }
    size += end - start;
    if (size >= wanted) return joined(bytes, wanted).subarray(MESSAGE_HEADER);
    at = start + length;
  }
  if (bytes.length < CLIENT_HELLO_LIMIT_BYTES) return undefined;
  throw new Malformed("the ClientHello is spread over too many TLS records");
}

/** Checks the bytes of it that are there: a client of another protocol may send a few and wait. */
function checkRecordHeader(bytes: Uint8Array, at: number): void {
  const type = bytes[at];
  const major = bytes[at + 1];
  if (type === HANDSHAKE_RECORD && (major === undefined || major === 3)) return;
  if (at > 0) throw new Malformed("the ClientHello is interrupted by another TLS record");
  let text = "";
  for (const byte of bytes.subarray(0, 8)) text += String.fromCharCode(byte);
  const spoken = PLAIN_HTTP.test(text) ? " but plain HTTP" : "";
  throw new Malformed(`the client does not speak TLS${spoken}`);
}

/** Length of the message with its header, updated by the header's byte at `at`. */
function wantedBytes(wanted: number, at: number, byte: number): number {
  if (at === 0) {
    if (byte === CLIENT_HELLO) return wanted;
    throw new Malformed("the client's first message is not a ClientHello");
  }
  const more = wanted + (byte << 8 * (MESSAGE_HEADER - 1 - at));
  if (more > MESSAGE_LIMIT_BYTES) throw new Malformed("the ClientHello is larger than 16 KiB");
  return more;
}

/** The first `size` bytes inside of records, which are there; a view if they lie in one record. */
function joined(bytes: Uint8Array, size: number): Uint8Array {
  if (uint16(bytes, 3) >= size) return bytes.subarray(RECORD_HEADER, RECORD_HEADER + size);
  const whole = new Uint8Array(size);
  for (let at = 0, filled = 0; filled < size;) {
    const start = at + RECORD_HEADER;
    const length = Math.min(uint16(bytes, at + 3), size - filled);
    whole.set(bytes.subarray(start, start + length), filled);
    filled += length;
    at = start + length;
  }
  return whole;
}

function helloIn(message: Uint8Array): ClientHello {
  const body = new Vectors(message);
  body.skip(2 + 32); // legacy_version, random
  body.vector(1); // session id
  body.vector(2); // cipher suites
  body.vector(1); // compression methods
  let serverName: string | undefined;
  let signatureAlgorithms: readonly number[] = [];
  let alpn: readonly string[] = [];
  // A hello may end here: it has no extensions.
  const extensions = body.done ? body : body.vector(2);
  if (!body.done) throw new Malformed("the ClientHello goes on after its extensions");
  const seen = new Set<number>();
  while (!extensions.done) {
    const type = extensions.number();
    const value = extensions.vector(2);
    // A second extension could differ from the one that the TLS library uses.
    if (seen.has(type)) throw new Malformed(`the ClientHello repeats extension ${type}`);
    seen.add(type);
    if (type === EXTENSION.serverName) serverName = serverNameIn(value);
    else if (type === EXTENSION.signatureAlgorithms) signatureAlgorithms = schemesIn(value);
    else if (type === EXTENSION.alpn) alpn = protocolsIn(value);
  }
  return { serverName, signatureAlgorithms, alpn };
}

function serverNameIn(value: Vectors): string {
  const list = onlyVectorOf(value);
  if (list.byte() !== HOST_NAME) throw new Malformed("the ClientHello names something but a host");
  const name = list.vector(2).text();
  if (!list.done) throw new Malformed("the ClientHello names several hosts");
  const plain = (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();
  if (plain.length > NAME_LIMIT || !DNS_NAME.test(plain)) {
    throw new Malformed("the ClientHello names a host that is not a DNS name");
  }
  return plain;
}

function schemesIn(value: Vectors): number[] {
  const list = onlyVectorOf(value);
  const schemes: number[] = [];
  while (!list.done) schemes.push(list.number());
  return schemes;
}

function protocolsIn(value: Vectors): string[] {
  const list = onlyVectorOf(value);
  const names: string[] = [];
  while (!list.done) {
    const name = list.vector(1).text();
    if (name === "") throw new Malformed("the ClientHello offers a protocol without a name");
    names.push(name);
  }
  return names;
}

/** The list that fills an extension's value; the RFCs allow no empty one. */
function onlyVectorOf(value: Vectors): Vectors {
  const list = value.vector(2);
  if (!value.done || list.done) throw new Malformed("an extension of the ClientHello is malformed");
  return list;
}

class Vectors {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  byte(): number {
    const at = this.skip(1);
    return byteAt(this.#bytes, at);
  }

  number(): number {
    const at = this.skip(2);
    return uint16(this.#bytes, at);
  }

  vector(lengthBytes: 1 | 2): Vectors {
    const length = lengthBytes === 1 ? this.byte() : this.number();
    const at = this.skip(length);
    return new Vectors(this.#bytes.subarray(at, at + length));
  }

  /** The remaining bytes as a text, a character for each byte. */
  text(): string {
    let text = "";
    while (!this.done) text += String.fromCharCode(this.byte());
    return text;
  }

  skip(count: number): number {
    const at = this.#at;
    if (at + count > this.#bytes.length) throw new Malformed("the ClientHello is cut short");
    this.#at = at + count;
    return at;
  }
}

function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}

function uint16(bytes: Uint8Array, at: number): number {
  return byteAt(bytes, at) << 8 | byteAt(bytes, at + 1);
}

class Malformed extends Error {}
