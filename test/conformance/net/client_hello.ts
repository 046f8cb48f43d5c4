/**
 * A ClientHello written by hand, for what no TLS library sends any more.
 *
 * @module
 */

function vector(width: 1 | 2 | 3, ...parts: ReadonlyArray<Uint8Array | readonly number[]>): Buffer {
  const body = Buffer.concat(parts.map((part) => Uint8Array.from(part)));
  const length = Buffer.alloc(width);
  length.writeUIntBE(body.length, 0, width);
  return Buffer.concat([length, body]);
}

function uint16(value: number): Buffer {
  return Buffer.of(value >> 8, value & 0xff);
}

/** One handshake record, `cut` bytes of the hello replaced by the start of another record. */
export function clientHello(
  options: { readonly version: number; readonly suites?: readonly number[]; readonly cut?: number },
): Uint8Array {
  // ECDHE-ECDSA-AES128-SHA and ECDHE-ECDSA-AES128-GCM-SHA256.
  const { version, suites = [0xc009, 0xc02b], cut = 0 } = options;
  const curves = Buffer.concat([uint16(10), vector(2, vector(2, uint16(23)))]);
  const points = Buffer.concat([uint16(11), vector(2, vector(1, [0]))]);
  const schemes = Buffer.concat([uint16(13), vector(2, vector(2, uint16(0x0403)))]);
  const hello = Buffer.concat([
    uint16(version),
    Buffer.alloc(32, 7),
    vector(1),
    vector(2, ...suites.map(uint16)),
    vector(1, [0]),
    vector(2, curves, points, schemes),
  ]);
  const message = Buffer.concat([Buffer.of(1), vector(3, hello)]);
  const record = Buffer.concat([Buffer.of(0x16, 3, 1), vector(2, message.subarray(cut))]);
  // What was cut off is followed by application data, which no handshake has.
  return cut ? Buffer.concat([record, Buffer.of(0x17, 3, 3, 0, 1, 0)]) : record;
}
