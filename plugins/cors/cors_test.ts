import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status as answers } from "../../src/kit/mod.ts";
import cors from "./cors.ts";

const SHOP = "https://shop.example";
const PREFLIGHT = { method: "OPTIONS" } as const;
const asking = (origin: string) => ({ origin, "access-control-request-method": "PUT" });
const fieldsOf = (headers: Iterable<readonly [string, string]>) => Object.fromEntries(headers);

for (
  const [pattern, origin, want] of [
    [SHOP, SHOP, true],
    [SHOP, "https://shop.example:8443", false],
    [SHOP, "http://shop.example", false],
    [SHOP, "https://shop.example.evil.test", false],
    ["https://*.shop.example", "https://a.shop.example", true],
    ["https://*.shop.example", "https://a.b.shop.example", true],
    ["https://*.shop.example", "https://.shop.example", false],
    ["https://*.shop.example", "https://evilshop.example", false],
    ["https://*.shop.example", "https://a.shop.example.evil.test", false],
    ["http://localhost:*", "http://localhost:3000", true],
    ["http://localhost:*", "http://localhost", false],
    ["*", "null", true],
    ["null", "null", true],
    [SHOP, "null", false],
  ] as const
) {
  test(`cors with ${pattern} ${want ? "allows" : "does not allow"} ${origin}`, async () => {
    const config = { origins: ["https://other.example", pattern] };
    await using it = await mount(cors, { config });
    const { headers, status } = await it.request({ headers: { origin } });
    assert.equal(headers.get("access-control-allow-origin"), want ? origin : undefined);
    assert.deepEqual([status, headers.get("vary"), it.upstream.requests.length], [
      200,
      "origin",
      1,
    ]);
  });
}

test("cors answers a preflight without the application", async () => {
  const config = {
    origins: [SHOP],
    methods: ["GET", "PUT"],
    headers: ["content-type", "x-a"],
    expose: ["x-total"],
    maxAgeSeconds: 600,
    credentials: true,
  };
  await using it = await mount(cors, { config });
  const { status, headers, body } = await it.request({ ...PREFLIGHT, headers: asking(SHOP) });
  assert.deepEqual([status, body, it.upstream.requests.length], [200, "", 0]);
  assert.equal(it.stat("preflights"), 1);
  assert.deepEqual(fieldsOf(headers), {
    "access-control-allow-origin": SHOP,
    "access-control-allow-credentials": "true",
    "access-control-allow-methods": "GET,PUT",
    "access-control-allow-headers": "content-type,x-a",
    "access-control-max-age": "600",
    "vary": "origin",
  });
});

test("cors sends only configured headers", async () => {
  await using it = await mount(cors, { config: { origins: [SHOP] } });
  const { headers } = await it.request({ ...PREFLIGHT, headers: asking(SHOP) });
  assert.deepEqual(fieldsOf(headers), { "access-control-allow-origin": SHOP, "vary": "origin" });
});

for (
  const [what, request] of [
    ["a preflight of another origin", { ...PREFLIGHT, headers: asking("https://evil.test") }],
    ["OPTIONS without a requested method", { ...PREFLIGHT, headers: { origin: SHOP } }],
    ["OPTIONS without an origin", { ...PREFLIGHT, headers: {} }],
    ["a request that looks like a preflight", { method: "GET", headers: asking(SHOP) }],
  ] as const
) {
  test(`cors passes ${what} on`, async () => {
    await using it = await mount(cors, { config: { origins: [SHOP] } });
    await it.request(request);
    assert.equal(it.upstream.requests.length, 1);
  });
}

test("cors overwrites CORS headers of the application for a matching origin", async () => {
  const said = {
    "access-control-allow-origin": "https://other.example",
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": "x-secret",
    "vary": "Accept, Origin",
  };
  const config = { origins: ["*"], expose: ["x-total"] };
  await using it = await mount(cors, { config, upstream: [answers(200, said)] });
  const { headers } = await it.request({ headers: { origin: SHOP } });
  assert.deepEqual(fieldsOf(headers), {
    "access-control-allow-origin": SHOP,
    "access-control-expose-headers": "x-total",
    "vary": "Accept, Origin",
  });
});

for (
  const [config, reason] of [
    [{ origins: [] }, /config\.origins/],
    [{ origins: ["shop.example"] }, /config\.origins\[0\]: is no origin/],
    [{ origins: ["https://shop.example/"] }, /config\.origins\[0\]: is no origin/],
    [{ origins: ["https://*.*.example"] }, /config\.origins\[0\]: is no origin/],
    [{ origins: ["*"], credentials: true }, /config\.credentials: lets any page/],
    [{ origins: ["*"], methods: ["A B"] }, /config\.methods\[0\]: is no token/],
    [{ origins: ["*"], maxAge: 1 }, /config\.maxAge/],
  ] as const
) {
  test(`cors refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(cors, { config }), reason);
  });
}
