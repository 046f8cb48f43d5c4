import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, type RequestInit } from "../../src/kit/mod.ts";
import redirect from "./redirect.ts";

const AT: RequestInit = { authority: "shop.example:8080", path: "/old/a?b=1" };

for (
  const [what, rule, request, want] of [
    ["to another scheme", { to: { scheme: "https" } }, {}, "https://shop.example:8080/old/a?b=1"],
    [
      "to another scheme, without the port of the one before",
      { to: { scheme: "https" } },
      { authority: "shop.example:80" },
      "https://shop.example/old/a?b=1",
    ],
    ["to another host", { to: { host: "b.example" } }, {}, "http://b.example/old/a?b=1"],
    ["to another port", { to: { port: 81 } }, {}, "http://shop.example:81/old/a?b=1"],
    [
      "to a default port, which is left out",
      { to: { scheme: "https", port: 443 } },
      {},
      "https://shop.example/old/a?b=1",
    ],
    [
      "to a port of an address",
      { to: { port: 81 } },
      { authority: "[::1]:80" },
      "http://[::1]:81/old/a?b=1",
    ],
    ["to another path", { to: { path: "/new" } }, {}, "http://shop.example:8080/new?b=1"],
    ["to a path with a query", { to: { path: "/new?c" } }, {}, "http://shop.example:8080/new?c"],
    [
      "to another path without the query",
      { to: { path: "/new" }, stripQuery: true },
      {},
      "http://shop.example:8080/new",
    ],
    [
      "to a path with a query, which stays",
      { to: { path: "/new?c" }, stripQuery: true },
      {},
      "http://shop.example:8080/new?c",
    ],
    [
      "to another prefix",
      { from: { prefix: "/old/" }, to: { prefix: "/new/" } },
      {},
      "http://shop.example:8080/new/a?b=1",
    ],
    ["nowhere from another prefix", { from: { prefix: "/a" }, to: { port: 1 } }, {}, undefined],
    ["nowhere from a path within", { from: { path: "/old" }, to: { port: 1 } }, {}, undefined],
    [
      "from a path, whatever its query is",
      { from: { path: "/old/a" }, to: { path: "/" }, stripQuery: true },
      {},
      "http://shop.example:8080/",
    ],
    ["nowhere from another host", { from: { host: "a" }, to: { port: 1 } }, {}, undefined],
    [
      "from a host in any case",
      { from: { host: "SHOP.example" }, to: { port: 1 } },
      {},
      "http://shop.example:1/old/a?b=1",
    ],
    ["nowhere if the URL stays the same", { to: { scheme: "http" } }, {}, undefined],
    [
      "nowhere if x-forwarded-proto has the scheme",
      { to: { scheme: "https" } },
      { headers: { "x-forwarded-proto": "https" } },
      undefined,
    ],
    ["nowhere without a host", { to: { path: "/" } }, { authority: "" }, undefined],
  ] as readonly (readonly [string, unknown, RequestInit, string | undefined])[]
) {
  test(`redirect leads ${what}`, async () => {
    await using it = await mount(redirect, { config: { rules: [rule] } });
    const { status, headers, body } = await it.request({ ...AT, ...request });
    assert.deepEqual([status, headers.get("location"), body], [want ? 301 : 200, want, ""]);
    assert.equal(it.upstream.requests.length, want ? 0 : 1);
  });
}

test("redirect answers with the status of the first matching rule", async () => {
  const rules = [
    { from: { path: "/a" }, to: { path: "/1" }, status: 302 },
    { from: { prefix: "/b" }, to: { path: "/2" }, status: 303 },
    { from: { prefix: "/" }, to: { path: "/3" }, status: 307 },
  ];
  const routeConfig = { rules: [{ from: { path: "/c" }, to: { path: "/4" }, status: 308 }] };
  await using it = await mount(redirect, { config: { rules }, routeConfig });
  const of = async (path: string) => (await it.request({ path })).status;
  assert.deepEqual([await of("/a"), await of("/b/c"), await of("/x")], [302, 303, 307]);
  assert.deepEqual([await of("/c"), await of("/3")], [308, 200]);
});

test("redirect sends a URL without a scheme if the scheme is unknown", () => {
  const rules = [{ from: {}, to: { path: "/new" }, status: 301, stripQuery: false } as const];
  const replies: unknown[] = [];
  const host = { reply: (...answer: unknown[]) => void replies.push(...answer) };
  const { onRequest } = redirect.create(host as never, { rules });
  const request = { scheme: "", authority: "db", path: "/old?b", headers: { get() {} } };
  onRequest?.({ request } as never, () => assert.fail());
  assert.deepEqual(replies, [301, { location: "//db/new?b" }]);
});

for (
  const [rule, reason] of [
    [{ to: {} }, /rules\[0\]\.to: leads nowhere/],
    [{ to: { path: "/", prefix: "/" }, from: { prefix: "/" } }, /rules\[0\]\.to: has two paths/],
    [{ to: { prefix: "/" } }, /rules\[0\]: to\.prefix takes the place of from\.prefix/],
    [{ to: { path: "//" }, status: 300 }, /rules\[0\]\.status/],
    [{ to: { path: "a" } }, /rules\[0\]\.to\.path: begins with/],
    [{ to: { host: "a:1" } }, /rules\[0\]\.to\.host: is no host/],
    [{ to: { scheme: "ftp" } }, /rules\[0\]\.to\.scheme/],
    [{ from: { path: "/a?b" }, to: { path: "/" } }, /rules\[0\]\.from\.path/],
  ] as const
) {
  test(`redirect refuses ${JSON.stringify(rule)}`, async () => {
    await assert.rejects(mount(redirect, { config: { rules: [rule] } }), reason);
  });
}
