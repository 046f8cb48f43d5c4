import assert from "node:assert/strict";
import { test } from "node:test";
import { wordFaults } from "./check_words.ts";

for (
  const [name, text, want] of [
    ["finds a pointing comment", "/** Of the last one. */\nlet a;", 1],
    ["finds a pointing line", "  // Whoever sent it.", 1],
    ["finds a pointing block", "/**\n * Whose memory it is.\n */", 1],
    ["lets a longer word pass", "/** Offset of the head. */ // Whole bytes.", 0],
    ["lets a later line pass", "/**\n * The owner\n * Of it.\n */", 0],
    ["finds a spread literal", "const a = { ...{ b, c } };", 1],
    ["lets a spread name pass", "const a = { ...b, ...(c && { d }) };", 0],
    ["lets a text pass", 'const a = "...{ b }"; // ...{', 0],
  ] as const
) {
  test(`wordFaults() ${name}`, () => {
    assert.equal(wordFaults("src/a/b.ts", text).length, want);
  });
}
