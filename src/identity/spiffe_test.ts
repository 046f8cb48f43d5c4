import assert from "node:assert/strict";
import test from "node:test";
import {
  formatServiceId,
  parseServiceId,
  parseSpiffeBundles,
  parseTrustDomainId,
} from "./spiffe.ts";
import { Buffer } from "node:buffer";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { ProxyError } from "../base/mod.ts";

const TD = "11111111-2222-3333-4444-555555555555.consul";
const WEB = {
  trustDomain: TD,
  partition: "default",
  namespace: "default",
  datacenter: "dc1",
  service: "web",
};

for (
  const [name, uri, want] of [
    ["a service", `spiffe://${TD}/ns/default/dc/dc1/svc/web`, WEB],
    ["a partition", `spiffe://${TD}/ap/east/ns/default/dc/dc1/svc/web`, {
      ...WEB,
      partition: "east",
    }],
    [
      "the trust domain in lower case",
      `spiffe://${TD.toUpperCase()}/ns/default/dc/dc1/svc/web`,
      WEB,
    ],
    ["the case of names", `spiffe://${TD}/ns/default/dc/dc1/svc/WEB`, { ...WEB, service: "WEB" }],
    ["escapes", `spiffe://${TD}/ns/default/dc/dc1/svc/we%20b%C3%A9`, { ...WEB, service: "we bé" }],
    ["names with dots", `spiffe://${TD}/ns/default/dc/dc1/svc/a..b`, { ...WEB, service: "a..b" }],
  ] as const
) {
  test(`parseServiceId() reads ${name}`, () => {
    assert.deepEqual(parseServiceId(uri), { kind: "service", id: want });
  });
}

for (
  const [name, uri, reason] of [
    ["a mesh gateway", `spiffe://${TD}/gateway/mesh/dc/dc1`, /not a service id/],
    ["an agent", `spiffe://${TD}/agent/client/dc/dc1/id/node1`, /not a service id/],
    ["a server", `spiffe://${TD}/agent/server/dc/dc1`, /not a service id/],
    ["a CA", `spiffe://${TD}`, /not a service id/],
    ["a CA with a slash", `spiffe://${TD}/`, /segment/],
    ["more after the service", `spiffe://${TD}/ns/default/dc/dc1/svc/web/x`, /not a service id/],
    ["a trailing slash", `spiffe://${TD}/ns/default/dc/dc1/svc/web/`, /segment/],
    ["an empty segment", `spiffe://${TD}/ns//dc/dc1/svc/web`, /segment/],
    ["a doubled slash", `spiffe://${TD}//ns/default/dc/dc1/svc/web`, /segment/],
    ["dots", `spiffe://${TD}/ns/../dc/dc1/svc/web`, /segment/],
    ["escaped dots", `spiffe://${TD}/ns/%2e%2E/dc/dc1/svc/web`, /segment/],
    ["an escaped slash", `spiffe://${TD}/ns/default/dc/dc1/svc/web%2fdb`, /segment/],
    ["an escaped NUL", `spiffe://${TD}/ns/default/dc/dc1/svc/web%00`, /segment/],
    ["a broken escape", `spiffe://${TD}/ns/default/dc/dc1/svc/web%2`, /segment/],
    ["an escape that is no UTF-8", `spiffe://${TD}/ns/default/dc/dc1/svc/web%FF`, /segment/],
    ["a port", `spiffe://${TD}:443/ns/default/dc/dc1/svc/web`, /trust domain/],
    ["user information", `spiffe://me@${TD}/ns/default/dc/dc1/svc/web`, /trust domain/],
    ["an escaped trust domain", "spiffe://a%2eb/ns/default/dc/dc1/svc/web", /trust domain/],
    ["no trust domain", "spiffe:///ns/default/dc/dc1/svc/web", /trust domain/],
    ["a trust domain with an empty label", "spiffe://a..b/ns/default/dc/dc1/svc/w", /trust domain/],
    ["a query", `spiffe://${TD}/ns/default/dc/dc1/svc/web?x`, /query/],
    ["a fragment", `spiffe://${TD}/ns/default/dc/dc1/svc/web#x`, /fragment/],
    ["another scheme", `https://${TD}/ns/default/dc/dc1/svc/web`, /spiffe:/],
    ["a NUL", `spiffe://${TD}/ns/default/dc/dc1/svc/web\u0000`, /printable/],
    ["a space", `spiffe://${TD}/ns/default/dc/dc1/svc/we b`, /printable/],
    ["letters beyond ASCII", `spiffe://${TD}/ns/default/dc/dc1/svc/é`, /printable/],
    ["too many bytes", `spiffe://${TD}/ns/default/dc/dc1/svc/${"w".repeat(2048)}`, /longer/],
    ["a partition without a name", `spiffe://${TD}/ap/ns/default/dc/dc1/svc/web`, /service id/],
    ["nothing", "", /spiffe:/],
  ] as const
) {
  test(`parseServiceId() refuses ${name}`, () => {
    const parsed = parseServiceId(uri);
    assert.ok(parsed.kind === "refused");
    assert.match(parsed.reason, reason);
  });
}

test("formatServiceId() leaves the default partition out", () => {
  assert.equal(formatServiceId(WEB), `spiffe://${TD}/ns/default/dc/dc1/svc/web`);
  const east = formatServiceId({ ...WEB, partition: "east" });
  assert.equal(east, `spiffe://${TD}/ap/east/ns/default/dc/dc1/svc/web`);
});

test("formatServiceId() escapes what Go escapes, and parseServiceId() undoes it", () => {
  const service = "a b!'()*$&+,:;=@~é%";
  const uri = formatServiceId({ ...WEB, service });
  const escaped = "a%20b%21%27%28%29%2A$&+,:;=@~%C3%A9%25";
  assert.equal(uri, `spiffe://${TD}/ns/default/dc/dc1/svc/${escaped}`);
  assert.deepEqual(parseServiceId(uri), { kind: "service", id: { ...WEB, service } });
});

test("parseTrustDomainId() accepts a CA's id, and none with a path", () => {
  assert.equal(parseTrustDomainId(`spiffe://${TD.toUpperCase()}`), TD);
  assert.equal(parseTrustDomainId(`spiffe://${TD}/ns/default`), undefined);
  assert.equal(parseTrustDomainId(TD), undefined);
});

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
