import assert from "node:assert/strict";
import test from "node:test";
import { formatServiceId, parseServiceId, parseTrustDomainId } from "./spiffe.ts";

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
