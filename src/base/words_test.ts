import { strict as assert } from "node:assert";
import { test } from "node:test";
import * as v from "valibot";
import { hostFault } from "./host.ts";
import { issueWords } from "./issue_words.ts";
import { nearest } from "./nearest.ts";

for (
  const [host, want] of [
    ["10.0.0.3", undefined],
    ["localhost", undefined],
    ["db.service.consul", undefined],
    ["db.service.consul.", undefined],
    ["db-1.example.c0m", undefined],
    ["3com.example", undefined],
    ["::1", undefined],
    ["2001:db8::7", undefined],
    ["::ffff:10.0.0.1", undefined],
    ["fe80::1%eth0.1", undefined],
    ["10.0.0.300", /^"10\.0\.0\.300", which is no IPv4 address/],
    ["10.0.0", /IPv4/],
    ["10.0.0.1.2", /IPv4/],
    ["10.0.0.1.", /IPv4/],
    ["010.0.0.1", /IPv4/],
    ["127.1", /IPv4/],
    ["8080", /IPv4/],
    ["0x7f000001", /IPv4/],
    ["db.example.7", /IPv4/],
    ["12345::1", /^"12345::1", which is no IPv6 address/],
    ["1:2:3", /IPv6/],
    ["::ffff:10.0.0.300", /IPv6/],
    ["fe80::1%", /IPv6/],
  ] as const
) {
  test(`hostFault() of ${host}: ${want ? "no address" : "none"}`, () => {
    if (want) assert.match(hostFault(host) ?? "", want);
    else assert.equal(hostFault(host), undefined);
  });
}

for (
  const [name, schema, input, want] of [
    ["a missing value", v.array(v.string(), "must be a list"), undefined, "must be a list"],
    ["a list", v.array(v.string()), "x", "must be a list, not a text"],
    ["an object", v.object({}), [], undefined],
    ["an object", v.object({}), null, "must be an object, not null"],
    ["an object", v.strictObject({}), 7, "must be an object, not 7"],
    ["a map", v.record(v.string(), v.string()), true, "must be an object, not true"],
    ["a text", v.string(), [], "must be a text, not a list"],
    ["a number", v.number(), {}, "must be a number, not an object"],
    ["a switch", v.boolean(), "x", "must be true or false, not a text"],
    ["an unknown key", v.strictObject({}), { a: 1 }, "is not known here"],
    ["a missing key", v.object({ a: v.string() }), {}, "is missing"],
    ["a choice", v.picklist(["a", "b"]), "x", 'must be "a" or "b"'],
    ["a literal", v.literal("a"), 1, 'must be "a", not 1'],
    [
      "a variant",
      v.variant("kind", [v.object({ kind: v.literal("a") }), v.object({ kind: v.literal("b") })]),
      { kind: "x" },
      'must be "a" or "b"',
    ],
    ["a union", v.union([v.string(), v.number()]), [], "must be a text or a number, not a list"],
    ["a part", v.pipe(v.number(), v.integer()), 1.5, "must be a whole number, not 1.5"],
    ["too little", v.pipe(v.number(), v.minValue(1)), 0, "must be a number, at least 1, not 0"],
    ["too much", v.pipe(v.number(), v.maxValue(1)), 2, "must be a number, at most 1, not 2"],
    ["infinity", v.pipe(v.number(), v.finite()), Infinity, "must be a finite number, not Infinity"],
    ["nothing", v.pipe(v.string(), v.nonEmpty()), "", "must not be empty"],
    ["too short", v.pipe(v.string(), v.minLength(2)), "a", "is shorter than 2"],
    ["too long", v.pipe(v.string(), v.maxLength(2)), "abc", "is longer than 2"],
    ["a form", v.pipe(v.string(), v.regex(/^a$/)), "b", "is of another form than it must be"],
    ["our words", v.string("must be a name"), 7, "must be a name, not 7"],
    [
      "our message about a value",
      v.pipe(v.number(), v.maxValue(9, "must be a number from 1 to 9")),
      10,
      "must be a number from 1 to 9, not 10",
    ],
    [
      "our message about a parsed text",
      v.pipe(v.string(), v.transform(Number), v.maxValue(9, "must be at most 9s")),
      "10",
      "must be at most 9s",
    ],
    ["our message alone", v.pipe(v.string(), v.check(() => false, "has a tab")), "b", "has a tab"],
  ] as const
) {
  test(`issueWords() of ${name}: ${want}`, () => {
    const result = v.safeParse(schema as v.GenericSchema, input);
    assert.equal(result.success, want === undefined);
    if (!result.success) assert.equal(issueWords(result.issues[0]), want);
  });
}

for (
  const [name, want] of [
    ["upstream", "upstreams"],
    ["cert_file", "certFile"],
    ["CERTFILE", "certFile"],
    ["trustdomian", "trustDomain"],
    ["up", undefined],
    ["nothing like it", undefined],
    ["u".repeat(1_000), undefined],
  ] as const
) {
  test(`nearest() of ${name.slice(0, 20)}: ${want}`, () => {
    assert.equal(nearest(name, ["certFile", "trustDomain", "upstreams"]), want);
  });
}
