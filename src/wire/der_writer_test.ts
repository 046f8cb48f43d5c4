import { Buffer } from "node:buffer";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  derBits,
  derBoolean,
  derElement,
  derNamedBits,
  derNumber,
  derOid,
  derTime,
  derUnsigned,
} from "./der_writer.ts";

const zeros = (length: number) => new Uint8Array(length);

for (
  const [what, der, head] of [
    ["nothing", derElement(0x30), "3000"],
    ["127 bytes", derElement(0x04, zeros(127)), "047f0000"],
    ["128 bytes", derElement(0x04, zeros(128)), "04818000"],
    ["256 bytes", derElement(0x04, zeros(200), zeros(56)), "0482010000"],
    ["zero", derNumber(0), "020100"],
    ["one", derNumber(1), "020101"],
    ["a number with its high bit set", derNumber(128), "02020080"],
    ["256", derNumber(256), "02020100"],
    ["more than 32 bits", derNumber(2 ** 40 + 5), "0206010000000005"],
    ["leading zeros", derUnsigned(Uint8Array.of(0, 0, 5)), "020105"],
    ["zeros alone", derUnsigned(zeros(3)), "020100"],
    ["no bytes", derUnsigned(zeros(0)), "020100"],
    ["true", derBoolean(true), "0101ff"],
    ["false", derBoolean(false), "010100"],
    // The example of X.690 8.19.5.
    ["an OID", derOid("2.999.3"), "0603883703"],
    ["an OID of many bytes", derOid("1.2.840.113549"), "06062a864886f70d"],
    ["bits of whole bytes", derBits(Uint8Array.of(0xaa)), "030200aa"],
    ["no named bit", derNamedBits([]), "030100"],
    ["the first bit", derNamedBits([0]), "03020780"],
    ["bits out of order", derNamedBits([6, 5]), "03020106"],
    ["the eighth bit", derNamedBits([0, 7]), "03020081"],
    ["bits of two bytes", derNamedBits([8, 0]), "0303078080"],
    [
      "the last second of UTCTime",
      derTime(Date.UTC(2049, 11, 31, 23, 59, 59)),
      time("491231235959Z"),
    ],
    ["the first one after", derTime(Date.UTC(2050, 0, 1)), time("20500101000000Z")],
    ["the first one of UTCTime", derTime(Date.UTC(1950, 0, 1)), time("500101000000Z")],
    ["the last one before", derTime(Date.UTC(1949, 11, 31)), time("19491231000000Z")],
  ] as const
) {
  test(`DerWriter encodes ${what}`, () =>
    assert.equal(Buffer.from(der).toString("hex").slice(0, head.length), head));
}

function time(text: string): string {
  const head = text.length === 13 ? "170d" : "180f";
  return head + Buffer.from(text).toString("hex");
}
