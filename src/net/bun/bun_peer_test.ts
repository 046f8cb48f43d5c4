import assert from "node:assert/strict";
import { test } from "node:test";
import { contextTag } from "../../wire/mod.ts";
import { derElement, derNumber, derOctets, derSequence } from "../../wire/der_writer.ts";
import { presentedCertificates } from "./bun_peer.ts";

const LEAF = derSequence(derNumber(1), derOctets(new Uint8Array(300)));
const MIDDLE = derSequence(derNumber(2), derOctets(new Uint8Array(700)));
const ROOT = derSequence(derNumber(3));

function field(tag: number, ...content: Uint8Array[]): Uint8Array {
  return derElement(contextTag(tag, "constructed"), ...content);
}

/** A session as BoringSSL writes it: version, suite, secrets, then numbered fields in order. */
function session(...fields: Uint8Array[]): Uint8Array {
  return derSequence(
    derNumber(1),
    derNumber(0x0304),
    derOctets(Uint8Array.of(0x13, 1)),
    derOctets(new Uint8Array(32)),
    derOctets(new Uint8Array(48)),
    field(1, derNumber(1_790_000_000)),
    field(2, derNumber(7_200)),
    field(3, LEAF),
    ...fields,
  );
}

const AFTER = field(20, derOctets(new Uint8Array(5)));

for (
  const [name, bytes, want] of [
    ["no field of a chain", session(AFTER), []],
    ["one intermediate", session(field(19, MIDDLE)), [MIDDLE]],
    ["intermediates in their order", session(field(19, MIDDLE, ROOT), AFTER), [MIDDLE, ROOT]],
    ["an empty chain", session(field(19), AFTER), []],
    ["a chain with an invalid second element", session(field(19, ROOT, derNumber(1))), [
      ROOT,
    ]],
    ["an incomplete field", session(Uint8Array.of(0xb3, 9, 0)), []],
    ["a number instead of a session", derNumber(7), []],
    ["nothing", new Uint8Array(), []],
  ] as const
) {
  test(`presentedCertificates() of ${name}`, () => {
    assert.deepEqual(presentedCertificates(bytes), want);
  });
}

test("presentedCertificates() of a truncated session are the first certificates", () => {
  const whole = session(field(19, MIDDLE, ROOT), AFTER);
  for (let length = 0; length < whole.length; length++) {
    assert.deepEqual(presentedCertificates(whole.subarray(0, length)), []);
  }
});

test("presentedCertificates() stops at 32", () => {
  const many = Array.from({ length: 40 }, () => ROOT);
  assert.equal(presentedCertificates(session(field(19, ...many))).length, 32);
});

test("presentedCertificates() refuses lengths that reach beyond the end or have no end", () => {
  for (const length of [[0x84, 0xff, 0xff, 0xff, 0xff], [0x80], [0x83, 0xff, 0xff, 0xff], [0xff]]) {
    assert.deepEqual(presentedCertificates(Uint8Array.of(0x30, ...length, 0x30, 0)), []);
  }
});
