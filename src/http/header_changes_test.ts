import assert from "node:assert/strict";
import { test } from "node:test";
import { exchangeRecord, requestHead } from "../../test/kit/wire/exchange_records.ts";
import { addField, FIELD, type Fields } from "./head.ts";
import { compileChanges, type HeaderChanges, headerFault } from "./header_changes.ts";

const AROUND = { hostname: "here", now: () => 0 };

function fieldsOf(lines: readonly string[]): Fields {
  const fields: Fields = [];
  for (const line of lines) {
    const [name = "", value = ""] = line.split(": ");
    addField(fields, name, value);
  }
  return fields;
}

function linesOf(fields: Fields): string[] {
  const lines: string[] = [];
  for (let i = 0; i < fields.length; i += FIELD) lines.push(`${fields[i]}: ${fields[i + 1]}`);
  return lines;
}

// The results are those of Envoy 1.40 for the same requests.
for (
  const [name, changes, before, after] of [
    ["removes each field of a name", { remove: ["a"] }, ["a: 1", "b: 2", "a: 3"], ["b: 2"]],
    ["replaces all fields of a name", { set: [["a", "9"]] }, ["a: 1", "b: 2", "a: 3"], [
      "a: 9",
      "b: 2",
    ]],
    ["sets a missing field", { set: [["a", "9"]] }, ["b: 2"], ["b: 2", "a: 9"]],
    ["adds beside an existing field", { add: [["a", "9"]] }, ["a: 1"], ["a: 1", "a: 9"]],
    [
      "removes before it adds",
      { remove: ["a"], add: [["a", "9"]] },
      ["a: 1"],
      ["a: 9"],
    ],
    [
      "sets before it adds",
      { set: [["a", "8"]], add: [["a", "9"]] },
      ["a: 1", "b: 2"],
      ["a: 8", "b: 2", "a: 9"],
    ],
    [
      "fills in operators",
      { set: [["a", "%REQ(x-q)% 100%% of %HOSTNAME%"]] },
      [],
      ["a: Q 100% of here"],
    ],
    [
      "keeps a field if the operator has no value",
      { set: [["a", "%REQ(x-none)%"], ["b", ""]], add: [["c", "%REQ(x-none)%"]] },
      ["a: 1"],
      ["a: 1"],
    ],
    ["writes UTF-8", { set: [["a", " naïve ✓ "]] }, [], ["a: na\u00c3\u00afve \u00e2\u009c\u0093"]],
    [
      "does not trim octets of UTF-8",
      { set: [["a", "%REQ(x-nbsp)% "]] },
      [],
      ["a: voil\u00c3\u00a0"],
    ],
    [
      "removes aliases of set and removed fields",
      { set: [["x-user", "a"]], remove: ["x-team"], add: [["via", "b"]] },
      ["x_user: forged", "x.team: forged", "v-ia: c"],
      ["v-ia: c", "x-user: a", "via: b"],
    ],
    [
      "sets both spellings if both are configured",
      { set: [["x-user", "a"], ["x_user", "a"]] },
      ["x.user: forged"],
      ["x-user: a", "x_user: a"],
    ],
    [
      "replaces a forged field even if the new value would be invalid or too long",
      { set: [["a", "%REQ(x-odd)%"], ["b", "%REQ(x-long)%"]] },
      ["a: forged", "b: forged"],
      ["a: a__b", `b: ${"x".repeat(8_192)}`],
    ],
  ] as [string, Partial<HeaderChanges>, string[], string[]][]
) {
  test(`compileChanges() ${name}`, () => {
    const change = compileChanges({ remove: [], set: [], add: [], ...changes }, AROUND);
    const fields = fieldsOf(before);
    const request = requestHead({
      fields: fieldsOf([
        "x-q: Q",
        "x-odd: a\r\nb",
        "x-nbsp: voil\u00c3\u00a0",
        `x-long: ${"x".repeat(9_000)}`,
      ]),
    });
    change(fields, exchangeRecord({}, { request }));
    assert.deepEqual(linesOf(fields), after);
  });
}

for (
  const [name, value, fault] of [
    ["X-Any", "a b", undefined],
    ["Server", undefined, undefined],
    ["x", "%DOWNSTREAM_REMOTE_ADDRESS% 100%%", undefined],
    ["host", "a", /what is asked for/],
    [":path", undefined, /what is asked for/],
    ["Content-Length", "1", /where a message ends/],
    ["transfer-encoding", undefined, /where a message ends/],
    ["Connection", "close", /of one connection/],
    ["content_length", "1", /where a message ends/],
    ["keep-alive", "1", /of one connection/],
    ["a b", "1", /no name/],
    ["", undefined, /no name/],
    ["a", "1\r\nb: 2", /control character/],
    ["a", "%NO_SUCH%", /NO_SUCH, which is not known/],
    ["a", "50%", /without an operator/],
    ["a", "x".repeat(8_193), /more than 8192/],
  ] as [string, string | undefined, RegExp | undefined][]
) {
  test(`headerFault() of ${name} ${value?.slice(0, 20) ?? "removed"}`, () => {
    const found = headerFault(name, value);
    if (fault) assert.match(found ?? "", fault);
    else assert.equal(found, undefined);
  });
}
