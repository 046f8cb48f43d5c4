import assert from "node:assert/strict";
import test from "node:test";
import { Buffer } from "node:buffer";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { ProxyError } from "../base/mod.ts";
import { parseSpiffeBundles } from "./spiffe.ts";

const A = createAuthority();
const B = createAuthority();
const x5cOf = (der: Uint8Array) => Buffer.from(der).toString("base64");
const key = (der: Uint8Array, use = "x509-svid") => ({ use, kty: "EC", x5c: [x5cOf(der)] });
const text = (domains: unknown) => JSON.stringify({ trust_domains: domains });

test("parseSpiffeBundles() reads bundles of several domains", () => {
  const bundles = parseSpiffeBundles(text({
    "a.example": {
      keys: [
        key(A.rootDer),
        { use: "jwt-svid", kid: "x", kty: "EC" },
        { kty: "EC" },
        { use: "other", x5c: "?" },
        key(B.rootDer),
      ],
      spiffe_sequence: 1,
    },
    "b.example": { keys: [key(B.rootDer)] },
    "none.example": { keys: [] },
  }));
  assert.deepEqual(bundles, {
    "a.example": [A.rootPem, B.rootPem],
    "b.example": [B.rootPem],
    "none.example": [],
  });
});

test("parseSpiffeBundles() accepts names of object properties as trust domains", () => {
  const bundles = parseSpiffeBundles(
    `{"trust_domains":{"constructor":{"keys":[]},"__proto__":{"keys":[]}}}`,
  );
  assert.deepEqual(Object.keys(bundles).sort(), ["__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(bundles), Object.prototype);
});

const KEY_TEXT = JSON.stringify(key(A.rootDer));

for (
  const [name, json, reason] of [
    ["no JSON", "{", /line 1, column 2: expected a key/],
    ["a list", "[]", /the bundle is not an object/],
    ["no trust_domains", "{}", /trust_domains is not an object/],
    ["no domain", text({}), /trust_domains is empty/],
    [
      "a domain twice",
      `{"trust_domains":{"a":{"keys":[]},\n"a":{"keys":[]}}}`,
      /line 2, .*"a" is wri/,
    ],
    [
      "a domain twice in another spelling",
      `{"trust_domains":{"a":{"keys":[]},"\\u0061":{"keys":[]}}}`,
      /"a" is written twice/,
    ],
    ["trust_domains twice", `{"trust_domains":{},"trust_domains":{}}`, /written twice/],
    ["keys twice", `{"trust_domains":{"a":{"keys":[],"keys":[]}}}`, /"keys" is written twice/],
    [
      "use twice",
      `{"trust_domains":{"a":{"keys":[{"use":"jwt-svid","use":"x509-svid"}]}}}`,
      /"use" is written twice/,
    ],
    ["a domain in capitals", text({ A: { keys: [] } }), /"A" is not the name of one/],
    ["a domain as id", text({ "spiffe://a": { keys: [] } }), /is not the name of one/],
    ["a domain that is null", text({ a: null }), /"a" is not an object/],
    ["no keys", text({ a: {} }), /keys is not a list/],
    ["a key that is text", text({ a: { keys: ["x"] } }), /keys\[0\] is not an object/],
    ["no x5c", text({ a: { keys: [{ use: "x509-svid" }] } }), /keys\[0\].x5c is missing or empty/],
    ["an empty x5c", text({ a: { keys: [{ use: "x509-svid", x5c: [] }] } }), /missing or empty/],
    ["x5c as text", text({ a: { keys: [{ use: "x509-svid", x5c: "x" }] } }), /missing or empty/],
    [
      "two certificates in x5c",
      text({ a: { keys: [{ use: "x509-svid", x5c: [x5cOf(A.rootDer), x5cOf(B.rootDer)] }] } }),
      /more than one/,
    ],
    [
      "a number in x5c",
      text({ a: { keys: [{ use: "x509-svid", x5c: [1] }] } }),
      /not a certificate/,
    ],
    [
      "the longest x5c that is decoded",
      text({ a: { keys: [{ use: "x509-svid", x5c: ["A".repeat(24 * 1024)] }] } }),
      /18432 bytes/,
    ],
    [
      "a longer x5c",
      text({ a: { keys: [{ use: "x509-svid", x5c: ["A".repeat(24 * 1024 + 4)] }] } }),
      /not a certificate in base64/,
    ],
    ["no base64", text({ a: { keys: [{ use: "x509-svid", x5c: ["a b="] }] } }), /not base64/],
    ["base64url", text({ a: { keys: [{ use: "x509-svid", x5c: ["-_-_"] }] } }), /not base64/],
    [
      "no certificate",
      text({ a: { keys: [{ use: "x509-svid", x5c: ["MAA="] }] } }),
      /Cannot read cert/,
    ],
    [
      "too many keys",
      text({ a: { keys: Array.from({ length: 101 }, () => ({})) } }),
      /more than 100 keys/,
    ],
    [
      "too many domains",
      text(Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`d${at}`, { keys: [] }]))),
      /more than 1000/,
    ],
    ["a text above the limit", `{"trust_domains":{}}${" ".repeat(4 << 20)}`, /longer than/],
    ["deep nesting", `{"trust_domains":${"[".repeat(1000)}`, /nested more than/],
    ["one good key and garbage", `{"trust_domains":{"a":{"keys":[${KEY_TEXT}]}}} x`, /the end/],
  ] as const
) {
  test(`parseSpiffeBundles() refuses ${name}`, () => {
    assert.throws(() => parseSpiffeBundles(json), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, /^Cannot read SPIFFE trust bundles: /);
      assert.match(error.message, reason);
      return true;
    });
  });
}
