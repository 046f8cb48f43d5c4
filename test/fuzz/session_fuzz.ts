/**
 * Serialised TLS sessions: nothing is thrown, and the parts found lie within the input, in order.
 *
 * @module
 */

import assert from "node:assert/strict";
import { presentedCertificates } from "../../src/net/bun/bun_peer.ts";
import { contextTag } from "../../src/wire/mod.ts";
import { derElement, derNumber, derOctets, derSequence } from "../../src/wire/der_writer.ts";
import type { FuzzTarget } from "./fuzz.ts";

const CERTIFICATE = derSequence(derNumber(1), derOctets(new Uint8Array(200)));

function session(...chain: Uint8Array[]): Uint8Array {
  return derSequence(
    derNumber(1),
    derNumber(0x0304),
    derOctets(new Uint8Array(48)),
    derElement(contextTag(3, "constructed"), CERTIFICATE),
    derElement(contextTag(19, "constructed"), ...chain),
    derElement(contextTag(20, "constructed"), derOctets(new Uint8Array(5))),
  );
}

export const target: FuzzTarget = {
  name: "session",
  corpus: [session(), session(CERTIFICATE), session(CERTIFICATE, derSequence(), CERTIFICATE)],
  dictionary: ["\x30\x82", "\x30\x80", "\x30\x84\xff\xff\xff\xff", "\xb3", "\xb3\x82", "\x30\x00"],
  run(input) {
    const found = presentedCertificates(input);
    assert.ok(found.length <= 32);
    let end = input.byteOffset;
    for (const certificate of found) {
      assert.equal(certificate.buffer, input.buffer);
      assert.equal(certificate[0], 0x30);
      assert.ok(certificate.byteOffset >= end && certificate.length >= 2);
      end = certificate.byteOffset + certificate.length;
    }
    assert.ok(end <= input.byteOffset + input.length);
  },
};
