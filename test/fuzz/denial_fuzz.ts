/** `x-postern-denied-by`: whatever an upstream sends, what is read is a known code and short plain text. */

import assert from "node:assert/strict";
import { ERROR_CODES } from "../../src/base/mod.ts";
import { addDenial, addField, DENIED_BY, type Fields, readDenial } from "../../src/http/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const encode = (text: string) => new TextEncoder().encode(text);

export const target: FuzzTarget = {
  name: "denial",
  corpus: [
    "intention_denied",
    "intention_denied default/web => db (deny)",
    "rate_limited\nrate_limited",
    "local_refused %0A%C3%A9",
  ].map(encode),
  dictionary: ["intention_denied", "unauthenticated ", " ", "\n", "\u001b[2J", "__proto__", "%"],
  limitBytes: 1_000,
  run(input) {
    const text = Array.from(input, (octet) => String.fromCharCode(octet)).join("");
    const fields: Fields = [];
    for (const value of text.split("\n")) addField(fields, DENIED_BY, value);
    const denial = readDenial(fields);
    if (denial) {
      assert.ok(ERROR_CODES.includes(denial.code));
      assert.match(denial.rule, /^[ -~]{0,400}$/);
    }
    // The names in a rule are written so that they are read again.
    const written: Fields = [];
    addDenial(written, { code: "intention_denied", rule: text });
    assert.equal(readDenial(written)?.code, "intention_denied");
  },
};
