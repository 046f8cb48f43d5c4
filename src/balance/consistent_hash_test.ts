import assert from "node:assert/strict";
import { test } from "node:test";
import { hashText, mix32 } from "./consistent_hash.ts";

for (
  const [text, seed, want] of [
    ["", 0, 0],
    ["", 1, 0x514e28b7],
    ["", 0xffffffff, 0x81f16f39],
    ["test", 0, 0xba6bd213],
    ["test", 0x9747b28c, 0x704b81dc],
    ["Hello, world!", 0, 0xc0363e43],
    ["Hello, world!", 0x9747b28c, 0x24884cba],
    ["The quick brown fox jumps over the lazy dog", 0, 0x2e4ff723],
    ["ππππππππ", 0x9747b28c, 0xd58063c1],
  ] as const
) {
  test(`hashText() gives MurmurHash3's value of "${text}" with seed ${seed}`, () => {
    assert.equal(hashText(text, seed), want);
  });
}

test("hashText() hashes text that is not ASCII by its bytes", () => {
  assert.notEqual(hashText("abcdefghé"), hashText("abcdefghe"));
  assert.equal(new Set(["é", "aé", "aaé", "aaaé", "aaaaé"].map((text) => hashText(text))).size, 5);
});

test("hashText() spreads neighbouring addresses over all buckets", () => {
  const buckets = new Array<number>(16).fill(0);
  for (let i = 0; i < 4096; i++) {
    const bucket = hashText(`10.0.${i >> 8}.${i & 255}`) % 16;
    buckets[bucket] = (buckets[bucket] ?? 0) + 1;
  }
  for (const count of buckets) assert.ok(count > 190 && count < 330, String(buckets));
});

test("mix32() gives different results in 0..2^32-1 for different numbers", () => {
  const seen = new Set<number>();
  for (let i = -500; i < 500; i++) {
    const mixed = mix32(i);
    assert.ok(Number.isInteger(mixed) && mixed >= 0 && mixed < 2 ** 32);
    seen.add(mixed);
  }
  assert.equal(seen.size, 1000);
});
