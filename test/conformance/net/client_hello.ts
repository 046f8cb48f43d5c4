/** A ClientHello written by hand, for what no TLS library sends. @module */

export function vector(
  width: 1 | 2 | 3,
  ...parts: ReadonlyArray<Uint8Array | readonly number[]>
): Buffer {
  const body = Buffer.concat(parts.map((part) => Uint8Array.from(part)));
  const length = Buffer.alloc(width);
  length.writeUIntBE(body.length, 0, width);
  return Buffer.concat([length, body]);
}

export function uint16(value: number): Buffer {
  return Buffer.of(value >> 8, value & 0xff);
}

export interface HelloOptions {
  readonly version?: number;
  readonly suites?: readonly number[];
  /** That many bytes are replaced by the start of another record. */
  readonly cut?: number;
  /** Entries of the server name extension; absent: no such extension. */
  readonly names?: readonly string[];
  /** Absent: `ecdsa_secp256r1_sha256` alone. */
  readonly schemes?: readonly number[];
  readonly alpn?: readonly string[];
  /** Further ones, each with its type and value. */
  readonly extensions?: ReadonlyArray<readonly [type: number, value: Uint8Array]>;
  /** Bytes of the message in each record. */
  readonly recordBytes?: number;
}

/** ECDHE-ECDSA-AES128-SHA and ECDHE-ECDSA-AES128-GCM-SHA256. */
const SUITES = [0xc009, 0xc02b];

/** The handshake message in one record, or in as many as it takes. */
export function clientHello(options: HelloOptions = {}): Uint8Array {
  const { recordBytes = 16_384, cut = 0 } = options;
  const message = clientHelloMessage(options);
  const whole = message.subarray(0, message.length - cut);
  const records: Buffer[] = [];
  for (let at = 0; at < whole.length; at += recordBytes) {
    records.push(record(whole.subarray(at, at + recordBytes)));
  }
  // Application data, which no handshake has, follows what was cut off.
  if (cut) records.push(Buffer.of(0x17, 3, 3, 0, 1, 0));
  return Buffer.concat(records);
}

/** A handshake record around `content`. */
export function record(content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(0x16, 3, 1), vector(2, content)]);
}

/** A client hello with its header of four bytes. */
export function clientHelloMessage(options: HelloOptions = {}): Buffer {
  const { version = 0x0303, suites = SUITES, names, schemes = [0x0403], alpn } = options;
  const extensions: Buffer[] = [
    extension(10, vector(2, uint16(23))), // curves
    extension(11, vector(1, [0])), // point formats
    extension(13, vector(2, ...schemes.map(uint16))),
  ];
  if (names) {
    const entries = names.map((name) =>
      Buffer.concat([Buffer.of(0), vector(2, Buffer.from(name, "latin1"))])
    );
    extensions.push(extension(0, vector(2, ...entries)));
  }
  if (alpn) {
    const protocols = alpn.map((name) => vector(1, Buffer.from(name, "latin1")));
    extensions.push(extension(16, vector(2, ...protocols)));
  }
  for (const [type, value] of options.extensions ?? []) extensions.push(extension(type, value));
  const hello = Buffer.concat([
    uint16(version),
    Buffer.alloc(32, 7),
    vector(1),
    vector(2, ...suites.map(uint16)),
    vector(1, [0]),
    vector(2, ...extensions),
  ]);
  return Buffer.concat([Buffer.of(1), vector(3, hello)]);
}

function extension(type: number, value: Uint8Array): Buffer {
  return Buffer.concat([uint16(type), vector(2, value)]);
}
