/**
 * Header blocks: nothing is thrown, the fields decoded are bounded by what a table can hold, and they
 * pass through our encoder unchanged. @module
 */

import assert from "node:assert/strict";
import { HpackDecoder } from "../../src/http/h2/hpack/decoder.ts";
import { FIELD_ROOM_BYTES, HpackEncoder } from "../../src/http/h2/hpack/encoder.ts";
import type { FuzzTarget } from "./fuzz.ts";

/** A literal field is at most this much longer than its octets: no code has fewer than five bits. */
const MOST_PER_OCTET = 8 / 5;
const TABLE_BYTES = 4096;

const hex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (two) => parseInt(two, 16));

export const target: FuzzTarget = {
  name: "hpack",
  corpus: [
    hex("828684410f7777772e6578616d706c652e636f6d"),
    hex("828684418cf1e3c2e5f23a6ba0ab90f4ff5886a8eb10649cbf"),
    hex("3fe101488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"),
    hex("8287854088" + "25a849e95ba97d7f8925a849e95bb8e8b4bfbebebebe"),
    hex("20203fe11f400161ff80800001620163100264740163"),
  ],
  dictionary: ["\x82", "\xbe", "\xbf", "\x40\x01a\x01b", "\x3f\xe1\x1f", "\x20", "\x7f\x80"],
  limitMs: 100,
  run(input, random) {
    const decoder = new HpackDecoder();
    const encoder = new HpackEncoder();
    const mirror = new HpackDecoder();
    // Several blocks of one connection, whose table is kept between them.
    for (let start = 0; start < input.length;) {
      const end = start + 1 + Math.floor(random() * (input.length - start));
      const fields: [string, string][] = [];
      const fault = decoder.decode(input, start, end, {
        onField({ text }, value) {
          const most = Math.max(TABLE_BYTES, (end - start) * MOST_PER_OCTET + 1);
          assert.ok(text.length + value.length <= most);
          fields.push([text, value]);
        },
      });
      assert.ok(fields.length <= end - start);
      if (fault !== "") {
        assert.match(fault, /^[a-z ]+$/);
        return;
      }
      const room = fields.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
      const block = new Uint8Array(room + (fields.length + 1) * FIELD_ROOM_BYTES);
      let at = encoder.begin(block, 0);
      for (const [name, value] of fields) at = encoder.field(name, value, block, at);
      const again: [string, string][] = [];
      const mirrored = mirror.decode(block, 0, at, {
        onField: ({ text }, value) => again.push([text, value]),
      });
      assert.deepEqual([mirrored, again], ["", fields]);
      if (random() < 0.2) encoder.limitTable(Math.floor(random() * 5_000));
      start = end;
    }
  },
};
