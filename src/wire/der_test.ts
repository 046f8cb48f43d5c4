import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../base/mod.ts";
import {
  asciiOf,
  bitStringOf,
  booleanOf,
  type DerElement,
  DerReader,
  integerOf,
  oidOf,
  smallIntegerOf,
  TAG,
  timeOf,
} from "./der.ts";
import {
  derBoolean,
  derElement,
  derNamedBits,
  derNumber,
  derOid,
  derSequence,
  derText,
  derTime,
  derUnsigned,
} from "../wire/der_writer.ts";

const read = (...bytes: number[]) => new DerReader(Uint8Array.from(bytes)).any("it");
const element = (bytes: Uint8Array): DerElement => new DerReader(bytes).any("it");
const utc = (text: string) => element(derText(TAG.utcTime, text));
const general = (text: string) => element(derText(TAG.generalizedTime, text));

for (
  const [name, attempt] of [
    ["an indefinite length", () => read(0x30, 0x80, 0, 0)],
    ["a length that is not minimal", () => read(0x04, 0x81, 1, 0)],
    ["a padded length", () => read(0x04, 0x82, 0, 0x80, ...new Array(128).fill(0))],
    ["a length of four bytes", () => read(0x04, 0x84, 0, 0, 0, 1, 0)],
    ["a length beyond the end", () => read(0x04, 2, 0)],
    ["a missing length", () => read(0x04)],
    ["empty input", () => read()],
    ["a long-form tag", () => read(0x1f, 0x01, 0)],
    ["an unexpected tag", () => new DerReader(derNumber(1)).read(TAG.oid, "it")],
    ["trailing bytes", () => new DerReader(Uint8Array.of(5, 0)).end("it")],
    ["deep nesting", () => {
      let reader = new DerReader(nested(30));
      for (let depth = 0; depth < 30; depth++) reader = reader.enter(TAG.sequence, "it");
    }],
    ["a boolean that is neither 0 nor 255", () => booleanOf(read(1, 1, 1), "it")],
    ["an empty integer", () => integerOf(read(2, 0), "it")],
    ["a padded integer", () => integerOf(read(2, 2, 0, 1), "it")],
    ["a padded negative integer", () => integerOf(read(2, 2, 0xff, 0x80), "it")],
    ["a negative count", () => smallIntegerOf(read(2, 1, 0x80), "it")],
    ["a large count", () => smallIntegerOf(read(2, 5, 1, 0, 0, 0, 0), "it")],
    ["a padded object identifier", () => oidOf(read(6, 2, 0x80, 1), "it")],
    ["an object identifier cut short", () => oidOf(read(6, 2, 0x2a, 0x81), "it")],
    ["an empty object identifier", () => oidOf(read(6, 0), "it")],
    ["an arc above 2^53", () => oidOf(read(6, 10, 42, ...new Array(8).fill(0xff), 1), "it")],
    ["unused bits that are set", () => bitStringOf(read(3, 2, 1, 0xff), "it")],
    ["unused bits of an empty string", () => bitStringOf(read(3, 1, 1), "it")],
    ["NUL in text", () => asciiOf(Uint8Array.of(0x61, 0), "it")],
    ["30 February", () => timeOf(utc("260230000000Z"), "it")],
    ["a leap second", () => timeOf(utc("260101000060Z"), "it")],
    ["a time without seconds", () => timeOf(utc("2601010000Z"), "it")],
    ["a time with an offset", () => timeOf(utc("260101000000+0100"), "it")],
    ["a time with a fraction", () => timeOf(general("20260101000000.5Z"), "it")],
    ["a time of another type", () => timeOf(element(derText(TAG.utf8String, "x")), "it")],
  ] as const
) {
  test(`DerReader refuses ${name}`, () => {
    assert.throws(attempt, (error) => {
      return error instanceof ProxyError && error.code === "identity_invalid";
    });
  });
}

for (
  const [name, got, want] of [
    ["a boolean", booleanOf(element(derBoolean(true)), "it"), true],
    ["a small integer", smallIntegerOf(element(derNumber(65_537)), "it"), 65_537],
    ["zero", smallIntegerOf(element(derNumber(0)), "it"), 0],
    ["an object identifier", oidOf(element(derOid("2.5.29.17")), "it"), "2.5.29.17"],
    [
      "an object identifier with large arcs",
      oidOf(element(derOid("1.2.840.113549.1.1.11")), "it"),
      "1.2.840.113549.1.1.11",
    ],
    [
      "an object identifier under arc 2 above 39",
      oidOf(element(derOid("2.999.3")), "it"),
      "2.999.3",
    ],
    [
      "a time of this century",
      timeOf(utc("261121033913Z"), "it"),
      Date.UTC(2026, 10, 21, 3, 39, 13),
    ],
    ["a time of the last century", timeOf(utc("500101000000Z"), "it"), Date.UTC(1950, 0, 1)],
    ["a time after 2049", timeOf(general("20500101000000Z"), "it"), Date.UTC(2050, 0, 1)],
    ["29 February", timeOf(utc("280229000000Z"), "it"), Date.UTC(2028, 1, 29)],
  ] as const
) {
  test(`DerReader reads ${name}`, () => assert.equal(got, want));
}

test("derUnsigned() keeps integers positive and minimal", () => {
  assert.deepEqual(derUnsigned(Uint8Array.of(0, 0, 0x80)), Uint8Array.of(2, 2, 0, 0x80));
  assert.deepEqual(derUnsigned(Uint8Array.of()), Uint8Array.of(2, 1, 0));
});

test("derNamedBits() cuts trailing zeros", () => {
  assert.deepEqual(derNamedBits([0, 5]), Uint8Array.of(3, 2, 2, 0x84));
  assert.deepEqual(derNamedBits([]), Uint8Array.of(3, 1, 0));
});

test("derElement() writes lengths that DerReader reads", () => {
  for (const length of [0, 127, 128, 255, 256, 65_535, 65_536]) {
    const { body } = element(derElement(TAG.octetString, new Uint8Array(length)));
    assert.equal(body.length, length);
  }
});

test("derTime() switches type in 2050", () => {
  assert.equal(element(derTime(Date.UTC(2049, 11, 31))).tag, TAG.utcTime);
  assert.equal(element(derTime(Date.UTC(2050, 0, 1))).tag, TAG.generalizedTime);
});

function nested(depth: number): Uint8Array {
  let bytes: Uint8Array = derSequence();
  for (let level = 0; level < depth; level++) bytes = derSequence(bytes);
  return bytes;
}
