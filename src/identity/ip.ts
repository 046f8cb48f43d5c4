/**
 * IP addresses of certificates and rules in one spelling, so that they can be compared as text.
 *
 * @module
 */

/** Of 4 or 16 bytes as RFC 5280 4.2.1.6 has them; `undefined`: another length. */
export function canonicalIp(bytes: Uint8Array): string | undefined {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) return undefined;
  const groups: string[] = [];
  for (let at = 0; at < 16; at += 2) {
    groups.push(((bytes[at] ?? 0) << 8 | (bytes[at + 1] ?? 0)).toString(16));
  }
  return canonicalIpText(groups.join(":"));
}

/** Of text; `undefined` where it is no address. Zones and leading zeros of IPv4 are no address. */
export function canonicalIpText(text: string): string | undefined {
  if (/^(?:(?:0|[1-9]\d{0,2})(?:\.(?!$)|$)){4}$/.test(text)) {
    return text.split(".").every((part) => Number(part) <= 255) ? text : undefined;
  }
  if (!/^[0-9a-fA-F:.]{2,45}$/.test(text) || !text.includes(":")) return undefined;
  const url = URL.parse(`http://[${text}]/`);
  return url ? url.hostname.slice(1, -1) : undefined;
}
