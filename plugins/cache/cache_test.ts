import assert from "node:assert/strict";
import { test } from "node:test";
import {
  hold,
  mount,
  type MountOptions,
  ok,
  type RequestInit,
  reset,
  settle,
  status,
  type Step,
} from "../../src/kit/mod.ts";
import type { HttpRequest } from "../../src/plugin/api.ts";
import { HeaderList } from "../../src/plugin/mod.ts";
import cache from "./cache.ts";
import { ResponseStore } from "./response_store.ts";

const FRESH = { "cache-control": "max-age=60" };

/** Each response has the number of its request as its body. */
function counted(headers: Record<string, string> = FRESH, code = 200): Step[] {
  return Array.from({ length: 9 }, (_, i) => status(code, headers, `${i + 1}`));
}
function caching(upstream: readonly Step[] = counted(), options: MountOptions = {}) {
  return mount(cache, { upstream, ...options });
}
type Caching = Awaited<ReturnType<typeof caching>>;
async function bodies(it: Caching, ...requests: readonly RequestInit[]): Promise<string> {
  const all = [];
  for (const request of requests) all.push((await it.request(request)).body);
  return all.join(" ");
}
const asked = (headers: Record<string, string | string[]>): RequestInit => ({ headers });

/** The numbers of the responses that the requests get: the same number is a hit. */
for (
  const [what, headers, requests, want] of [
    ["a fresh response", FRESH, [{}, {}, { path: "/?a" }, {}], "1 1 2 1"],
    ["no lifetime", {}, [{}, {}], "1 2"],
    ["another host", FRESH, [{}, { authority: "evil" }, {}], "1 2 1"],
    ["the host in another case", FRESH, [{}, { authority: "DB" }], "1 2"],
    ["a HEAD", FRESH, [{}, { method: "HEAD" }, {}], "1  1"],
    ["a GET after a HEAD", FRESH, [{ method: "HEAD" }, {}, {}], " 2 2"],
    ["a POST, which changes the resource", FRESH, [{}, { method: "POST" }, {}], "1 2 3"],
    ["a POST elsewhere", FRESH, [{}, { method: "POST", path: "/a" }, {}], "1 2 1"],
    ["a GET with a body", FRESH, [{ body: "a" }, {}, { body: "a" }, {}], "1 2 3 2"],
    ["an OPTIONS", FRESH, [{ method: "OPTIONS" }, {}, { method: "OPTIONS" }], "1 2 3"],
    ["gRPC", FRESH, [asked({ "content-type": "application/grpc" }), {}], "1 2"],
    ["a range", FRESH, [asked({ range: "bytes=0-1" }), {}, asked({ range: "bytes=0-1" })], "1 2 3"],
    ["no-store of the caller", FRESH, [asked({ "cache-control": "no-store" }), {}], "1 2"],
    ["no-cache of the caller", FRESH, [{}, asked({ "cache-control": "no-cache" }), {}], "1 2 2"],
    ["Pragma of the caller", FRESH, [{}, asked({ pragma: "no-cache" }), {}], "1 2 2"],
    ["max-age of the caller", FRESH, [{}, asked({ "cache-control": "max-age=0" })], "1 2"],
    ["min-fresh of the caller", FRESH, [{}, asked({ "cache-control": "min-fresh=61" })], "1 2"],
    ["another header", FRESH, [asked({ "x-a": "1" }), asked({ "x-a": "2" })], "1 1"],
    ["a header in Vary", { ...FRESH, vary: "X-A" }, [
      asked({ "x-a": "1" }),
      asked({ "x-a": "2" }),
      {},
      asked({ "X-A": "1" }),
      asked({ "x-a": ["1", "2"] }),
      asked({ "x-a": "1, 2" }),
    ], "1 2 3 1 4 5"],
    ["Vary: *", { ...FRESH, vary: "*" }, [{}, {}], "1 2"],
    ["a header that names another host", FRESH, [
      asked({ "X-Forwarded-Host": "evil" }),
      {},
      asked({ "x-forwarded-host": "evil" }),
      {},
    ], "1 2 1 2"],
    ["a header that names another path or method", FRESH, [
      asked({ "x-original-url": "/admin" }),
      asked({ "x-rewrite-url": "/admin" }),
      asked({ "x-http-method-override": "DELETE" }),
      {},
    ], "1 2 3 4"],
    ["a forged separator of the key", FRESH, [
      asked({ "x-host": "a", "x-original-url": "b" }),
      asked({ "x-host": "a\tx-original-url\tb" }),
    ], "1 2"],
    [
      "Authorization",
      FRESH,
      [asked({ authorization: "a" }), {}, asked({ authorization: "a" })],
      "1 2 3",
    ],
    ["a cookie", FRESH, [asked({ cookie: "a=b" }), {}, asked({ cookie: "a=b" })], "1 2 3"],
    ["a public response", { "cache-control": "public, max-age=60" }, [
      asked({ authorization: "a" }),
      asked({ authorization: "b" }),
      {},
    ], "1 1 1"],
    ["Set-Cookie", { ...FRESH, "set-cookie": "a=b" }, [{}, {}], "1 2"],
  ] as readonly (readonly [string, Record<string, string>, RequestInit[], string])[]
) {
  test(`cache of ${what}`, async () => {
    await using it = await caching(counted(headers));
    assert.equal(await bodies(it, ...requests), want);
  });
}

for (const code of [206, 302, 400, 413, 500, 503]) {
  test(`cache does not store a ${code}`, async () => {
    await using it = await caching(counted(FRESH, code));
    assert.equal(await bodies(it, {}, {}), "1 2");
  });
}

test("cache shares a response between callers only if it is public", () => {
  const store = new ResponseStore(10_000);
  const request = { scheme: "http", authority: "db", path: "/", headers: new HeaderList([]) };
  const by = (source: string, hasCredentials = false) =>
    store.find({ request: request as unknown as HttpRequest, source, hasCredentials }) !==
      undefined;
  for (const isPublic of [false, true]) {
    store.put("db\0/", {
      status: 200,
      headers: request.headers,
      body: new Uint8Array(),
      freshFor: 60,
      staleFor: 0,
      age: 0,
      isPublic,
      vary: [],
      storedAtMs: 0,
      source: "web",
      selection: "http",
      isRenewed: false,
    });
    const found = [by("web"), by("shop"), by(""), by("web", true)];
    assert.deepEqual(found, [true, isPublic, isPublic, isPublic]);
  }
});

test("cache answers with the age, and not any more at the end of the lifetime", async () => {
  await using it = await caching(counted({ ...FRESH, age: "10", "x-request-id": "1", link: "a" }));
  await it.request();
  await it.clock.advance(20_900);
  const { headers, status: code } = await it.request();
  const shown = ["age", "x-request-id", "link"].map((name) => headers.all(name).join());
  assert.deepEqual([code, ...shown], [200, "30", "", "a"]);
  assert.deepEqual([it.stat("requests", { result: "hit" }), it.stat("stored_responses")], [1, 1]);
  await it.clock.advance(29_100);
  assert.equal((await it.request()).body, "2");
});

test("cache validates a stale response, and has its new lifetime", async () => {
  const first = { ...FRESH, etag: '"a"', "last-modified": "Sat, 21 Nov 2026 07:00:00 GMT" };
  await using it = await caching([
    status(200, first, "page"),
    status(304, { "cache-control": "max-age=100" }),
    status(500, {}, "broken"),
    status(200, { ...FRESH, etag: '"b"' }, "new page"),
  ]);
  await it.request();
  await it.clock.advance(61_000);
  assert.equal(await bodies(it, {}, {}), "page page");
  const [, asking] = it.upstream.requests;
  assert.deepEqual(["if-none-match", "if-modified-since"].map((name) => asking?.header(name)), [
    '"a"',
    first["last-modified"],
  ]);
  await it.clock.advance(99_000);
  assert.equal(await bodies(it, {}), "page");
  await it.clock.advance(2_000);
  assert.equal(await bodies(it, {}, {}, {}), "broken new page new page");
  assert.equal(it.stat("requests", { result: "validated" }), 1);
});

test("cache answers 304 to a caller that has the response, and passes its conditions on otherwise", async () => {
  await using it = await caching([
    status(200, { ...FRESH, etag: '"a"', "x-a": "b" }, "page"),
    status(304, { ...FRESH, etag: '"a"' }),
  ]);
  await it.request();
  const known = asked({ "if-none-match": '"b", W/"a"' });
  const { status: code, headers, body } = await it.request(known);
  assert.deepEqual([code, body, headers.get("etag"), headers.get("x-a")], [
    304,
    "",
    '"a"',
    undefined,
  ]);
  assert.equal((await it.request(asked({ "if-none-match": '"b"' }))).body, "page");
  await it.clock.advance(61_000);
  assert.equal((await it.request(asked({ "if-none-match": '"a"' }))).status, 304);
  assert.equal(it.upstream.requests.length, 2);
  assert.equal(await bodies(it, {}), "page", "the 304 has renewed the stored response");
});

test("cache lets one request renew a response, and others have the stale one meanwhile", async () => {
  const swr = { "cache-control": "max-age=60, stale-while-revalidate=30", etag: '"a"' };
  const held = hold();
  await using it = await caching([status(200, swr, "old"), held]);
  await it.request();
  await it.clock.advance(70_000);
  const renewing = it.request();
  await settle();
  assert.equal(await bodies(it, {}, {}), "old old");
  held.answer(status(200, swr, "new"));
  assert.equal((await renewing).body, "new");
  assert.equal(await bodies(it, {}), "new");
  assert.deepEqual([it.upstream.requests.length, it.stat("requests", { result: "stale" })], [2, 2]);
});

test("cache sends one of many requests, and the others have its response", async () => {
  const held = hold();
  await using it = await caching([held, ok("other")]);
  const all = Array.from({ length: 20 }, () => it.request());
  await settle();
  assert.equal(it.upstream.requests.length, 1);
  held.answer(status(200, FRESH, "pa", "ge"));
  const got = (await Promise.all(all)).map(({ body }) => body);
  assert.deepEqual(new Set(got), new Set(["page"]));
  assert.equal(it.stat("requests", { result: "collapsed" }), 19);
});

for (
  const [what, step] of [
    ["is not stored", status(200, {}, "other")],
    ["is an error", status(500, FRESH, "other")],
    ["breaks", reset()],
  ] as const
) {
  test(`cache sends all of many requests if the first response ${what}`, async () => {
    const held = hold();
    await using it = await caching([held, ok("other")]);
    const all = Array.from({ length: 5 }, () => it.request());
    await settle();
    held.answer(step);
    const got = (await Promise.all(all)).map(({ body }) => body);
    assert.deepEqual(got.slice(1), ["other", "other", "other", "other"]);
    assert.equal(it.upstream.requests.length, 5);
  });
}

test("cache waits five seconds for another request, and not for one whose caller left", async () => {
  await using it = await caching([hold(), ok("slow"), hold(), ok("left")]);
  const leaving = new AbortController();
  const first = it.request({ signal: leaving.signal });
  const second = it.request();
  await settle();
  await it.clock.advance(5_000);
  assert.equal((await second).body, "slow");
  leaving.abort();
  await first;
  const other = new AbortController();
  const third = it.request({ path: "/b", signal: other.signal });
  const fourth = it.request({ path: "/b" });
  await settle();
  other.abort();
  assert.equal((await fourth).body, "left");
  await third;
  assert.equal(it.logs.length, 0);
});

test("cache does not store a response that was under way when the resource changed", async () => {
  const held = hold();
  await using it = await caching([held, ok("changed"), status(200, FRESH, "new")]);
  const early = it.request();
  await settle();
  assert.equal((await it.request({ method: "PUT" })).body, "changed");
  held.answer(status(200, FRESH, "old"));
  assert.equal((await early).body, "old");
  assert.equal(await bodies(it, {}, {}), "new new");
});

test("cache keeps to its limits of bytes, and drops what was used longest ago", async () => {
  const config = { limitBytes: 20_000, responseLimitBytes: 5_000 };
  const page = (length: number, ...more: string[]) =>
    status(200, FRESH, "x".repeat(length), ...more);
  const sizes = ({ path }: { path: string }) => {
    const length = Number(path.slice(2).split("-")[0]);
    return path.startsWith("/c") ? page(length, "y") : page(length);
  };
  await using it = await caching([sizes], { config });
  const requests = () => it.upstream.requests.length;
  for (const path of ["/a5001", "/a5001", "/c5000", "/c5000"]) await it.request({ path });
  assert.deepEqual([requests(), it.stat("stored_bytes")], [4, 0]);
  for (let i = 0; i < 4; i++) {
    await it.request({ path: `/a3500-${i}` });
    await it.request({ path: "/a3500-0" });
  }
  assert.equal(requests(), 8);
  await it.request({ path: "/a3500-9" });
  assert.ok(it.stat("stored_bytes") <= 20_000);
  await it.request({ path: "/a3500-0" });
  assert.equal(requests(), 9);
  await it.request({ path: "/a3500-1" });
  assert.equal(requests(), 10);
  await it.reload({ ...config, limitBytes: 30_000 });
  assert.equal(it.stat("stored_bytes"), 0, "a new configuration begins empty");
});

test("cache keeps at most 32 variants of a page", async () => {
  await using it = await caching([status(200, { ...FRESH, vary: "x-a" }, "page")]);
  for (let i = 0; i < 100; i++) await it.request(asked({ "x-a": `${i}` }));
  assert.equal(it.stat("stored_responses"), 32);
});

test("cache answers 504 to only-if-cached without a stored response", async () => {
  await using it = await caching();
  const only = asked({ "cache-control": "only-if-cached" });
  assert.equal((await it.request(only)).status, 504);
  assert.equal(await bodies(it, {}, only), "1 1");
});

for (
  const [config, reason] of [
    [{ limitBytes: 1_000_000 }, /more than half of limitBytes/],
    [{ limitBytes: 1 }, /config\.limitBytes/],
    [{ ttl: 1 }, /config\.ttl/],
  ] as const
) {
  test(`cache refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(cache, { config }), reason);
  });
}
