/**
 * IP addresses of certificates in the spelling of rules, so that they can be compared as text.
 *
 * @module
 */

import { canonicalIpText } from "../base/mod.ts";

/** The text of 4 or 16 bytes as RFC 5280 4.2.1.6 has them; `undefined`: another length. */
export function canonicalIp(bytes: Uint8Array): string | undefined {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) return undefined;
  const groups: string[] = [];
  for (let at = 0; at < 16; at += 2) {
    groups.push(((bytes[at] ?? 0) << 8 | (bytes[at + 1] ?? 0)).toString(16));
  }
  return canonicalIpText(groups.join(":"));
}
