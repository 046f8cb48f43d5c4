import assert from "node:assert/strict";
import { test } from "node:test";
import { ERROR_CODES } from "../base/mod.ts";
import { addDenial, DENIED_BY, readDenial } from "./denial.ts";
import { addField, type Fields } from "./head.ts";

function read(...values: readonly string[]): ReturnType<typeof readDenial> {
  const fields: Fields = [];
  for (const value of values) addField(fields, DENIED_BY, value);
  return readDenial(fields);
}

for (
  const [name, values, want] of [
    ["a code", ["intention_denied"], { code: "intention_denied", rule: "" }],
    ["a code with a rule", ["intention_denied default/web => db (deny)"], {
      code: "intention_denied",
      rule: "default/web => db (deny)",
    }],
    ["nothing", [], undefined],
    ["no unknown code", ["no_such_code"], undefined],
    ["no name of an object's member", ["constructor"], undefined],
    ["no rule alone", ["default/web => db (deny)"], undefined],
    ["no rule with control characters", ["intention_denied a\u001b[2Jb"], undefined],
    ["no rule with octets above ASCII", ["intention_denied a\u00e9"], undefined],
    ["no long rule", [`intention_denied ${"x".repeat(401)}`], undefined],
    ["no two values", ["rate_limited", "rate_limited"], undefined],
    ["no list", ["rate_limited, rate_limited"], undefined],
  ] as const
) {
  test(`readDenial() reads ${name}`, () => assert.deepEqual(read(...values), want));
}

test("readDenial() reads what addDenial() writes", () => {
  for (const code of ERROR_CODES) {
    const fields: Fields = [];
    addDenial(fields, { code, rule: "" });
    assert.deepEqual(readDenial(fields), { code, rule: "" });
  }
  const fields: Fields = [];
  addDenial(fields, { code: "intention_denied", rule: `\n\u00e9${"%".repeat(500)}` });
  assert.match(readDenial(fields)?.rule ?? "", /^%0A%C3%A9(%25)+/);
});
