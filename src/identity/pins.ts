/**
 * Pinned leaves: by SHA-256 of the public key or of the whole certificate (Envoy's
 * `verify_certificate_spki` and `verify_certificate_hash`). Any pin of either list suffices.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { ProxyError } from "../base/mod.ts";
import type { Certificate } from "./certificate.ts";
import type { PeerRules } from "./validation.ts";

export type PinTest = (leaf: Certificate) => boolean;

const PIN_LIMIT = 1000;

/** `undefined`: there are no pins. Throws `credentials_invalid` on what is no SHA-256. */
export function compilePins(
  { spkiPins, certificateHashes }: Pick<PeerRules, "spkiPins" | "certificateHashes">,
): PinTest | undefined {
  const pins = spkiPins.length + certificateHashes.length;
  if (pins === 0) return undefined;
  if (pins > PIN_LIMIT) fail(`there are more than ${PIN_LIMIT} pins`);
  const spkis = new Set(spkiPins.map((pin) => {
    if (!/^[A-Za-z0-9+/]{43}=$/.test(pin)) fail(`the pin ${quote(pin)} is not a SHA-256 in base64`);
    // The last character has two bits that say nothing.
    return Buffer.from(pin, "base64").toString("base64");
  }));
  const hashes = new Set(certificateHashes.map((hash) => {
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      fail(`the pin ${quote(hash)} is not a SHA-256 in lower-case hex`);
    }
    return hash;
  }));
  return (leaf) =>
    spkis.has(createHash("sha256").update(leaf.spki).digest("base64")) ||
    hashes.has(createHash("sha256").update(leaf.raw).digest("hex"));
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
