import assert from "node:assert/strict";
import { test } from "node:test";
import { HeaderList } from "../../src/plugin/mod.ts";
import { demandsOf, directivesOf, isNotModified, storable, timeOf } from "./cache_control.ts";

const NOW = Date.UTC(2026, 10, 21, 7, 30);
const at = (seconds: number) => new Date(NOW + seconds * 1_000).toUTCString();

/** `cache-control: a | etag: b`. */
function headersOf(text: string): HeaderList {
  return text.split(" | ").filter((line) => line !== "").reduce((headers, line) => {
    const [name = "", ...rest] = line.split(": ");
    return headers.with({ add: { [name]: rest.join(": ") } });
  }, new HeaderList([]));
}

for (
  const [text, want] of [
    ["max-age=5", { "max-age": "5" }],
    ["Max-Age=5 , NO-STORE", { "max-age": "5", "no-store": "" }],
    ['private="a, no-store", max-age="7"', { private: "a, no-store", "max-age": "7" }],
    ["max-age=9, max-age=5, max-age=7", { "max-age": "5" }],
    ["max-age=5, max-age=x", { "max-age": "x" }],
    ['max-age="5, no-store', { "max-age": "", "no-store": "" }],
    [",,=5,", { 5: "" }],
    ["", {}],
  ] as const
) {
  test(`directivesOf() ${JSON.stringify(text)}`, () => {
    assert.deepEqual(Object.fromEntries(directivesOf([text])), want);
  });
}

/** `freshFor staleFor age`, with `public` and the names of Vary; `-`: it is not stored. */
for (
  const [headers, want, options = {}] of [
    ["cache-control: max-age=60", "60 0 0"],
    ["cache-control: max-age=60", "60 0 0", { status: 404 }],
    ["cache-control: max-age=60", "-", { status: 206 }],
    ["cache-control: max-age=60", "-", { status: 302 }],
    ["cache-control: max-age=60", "-", { status: 400 }],
    ["cache-control: max-age=60", "-", { status: 405 }],
    ["cache-control: max-age=60", "-", { status: 500 }],
    ["cache-control: max-age=60 | cache-control: no-store", "-"],
    ["cache-control: max-age=60, private", "-"],
    ['cache-control: max-age=60, private="x-a"', "-"],
    ["cache-control: max-age=60, no-cache | etag: a", "0 0 0"],
    ["cache-control: max-age=60, no-cache", "-"],
    ["cache-control: max-age=60 | set-cookie: a=b", "-"],
    ["cache-control: max-age=60 | content-range: bytes 0-1/2", "-"],
    ["cache-control: max-age=60 | trailer: a", "-"],
    ["cache-control: max-age=60 | vary: *", "-"],
    ["cache-control: max-age=60 | vary: accept, *", "-"],
    ["cache-control: max-age=60 | vary: B, a | vary: b", "60 0 0 a b"],
    ["cache-control: max-age=60 | vary: a b", "-"],
    [`cache-control: max-age=60 | vary: ${Array.from({ length: 17 }, (_, i) => `a${i}`)}`, "-"],
    ["cache-control: max-age=60, s-maxage=9", "9 0 0 public"],
    ["cache-control: public, max-age=60", "60 0 0 public"],
    ["cache-control: max-age=-1", "-"],
    ["cache-control: max-age=1.5", "-"],
    ["cache-control: max-age=99999999999999", "-"],
    ["cache-control: max-age=9999999999", "31536000 0 0"],
    ["cache-control: max-age=60, stale-while-revalidate=30", "60 30 0"],
    ["cache-control: max-age=60, stale-while-revalidate=30, must-revalidate", "60 0 0"],
    ["cache-control: max-age=60 | age: 20", "60 0 20"],
    ["cache-control: max-age=60 | age: 60", "-"],
    ["cache-control: max-age=60 | age: x | etag: a", "60 0 31536000"],
    [`cache-control: max-age=60 | date: ${at(-20)}`, "60 0 20"],
    [`cache-control: max-age=60 | date: ${at(20)}`, "60 0 0"],
    [`expires: ${at(60)}`, "60 0 0"],
    [`expires: ${at(60)} | date: ${at(-5)}`, "65 0 5"],
    [`expires: ${at(60)} | cache-control: max-age=7`, "7 0 0"],
    [`expires: ${at(-60)} | etag: a`, "0 0 0"],
    ["expires: 0 | etag: a", "0 0 0"],
    [`expires: ${at(60)} | expires: ${at(60)}`, "-"],
    ["etag: a", "-"],
    ["cache-control: public", "-"],
    [`last-modified: ${at(-60)}`, "-"],
    ["cache-control: max-age=60", "-", { hasCredentials: true }],
    ["cache-control: max-age=60, must-revalidate", "-", { hasCredentials: true }],
    ["cache-control: max-age=60, public", "60 0 0 public", { hasCredentials: true }],
    ["cache-control: s-maxage=60", "60 0 0 public", { hasCredentials: true }],
  ] as readonly (readonly [string, string, { status?: number; hasCredentials?: boolean }?])[]
) {
  test(`storable() ${headers} ${JSON.stringify(options)}`, () => {
    const { status = 200, hasCredentials = false } = options;
    const made = storable({ status, headers: headersOf(headers) }, { hasCredentials, nowMs: NOW });
    const { freshFor, staleFor, age, isPublic, vary } = made ?? {};
    const shown = [freshFor, staleFor, age, ...isPublic ? ["public"] : [], ...vary ?? []].join(" ");
    assert.equal(made ? shown : "-", want);
  });
}

for (
  const [headers, want] of [
    ["", {}],
    ["cache-control: no-store", { noStore: true }],
    ["cache-control: No-Cache", { maxAge: 0 }],
    ["pragma: no-cache", { maxAge: 0 }],
    ["pragma: no-cache | cache-control: max-age=5", { maxAge: 5 }],
    ["cache-control: min-fresh=9, only-if-cached", { minFresh: 9, onlyIfCached: true }],
    ["cache-control: max-age=x", { maxAge: 0 }],
  ] as const
) {
  test(`demandsOf() ${headers}`, () => {
    const none = { noStore: false, onlyIfCached: false, maxAge: Infinity, minFresh: 0 };
    assert.deepEqual(demandsOf(headersOf(headers)), { ...none, ...want });
  });
}

for (
  const [asked, stored, want] of [
    ['if-none-match: "a"', 'etag: "a"', true],
    ['if-none-match: W/"a"', 'etag: "a"', true],
    ['if-none-match: "a"', 'etag: W/"a"', true],
    ['if-none-match: "b", "a"', 'etag: "a"', true],
    ['if-none-match: "b"', 'etag: "a"', false],
    ['if-none-match: "a, b"', 'etag: "a"', false],
    ["if-none-match: *", "", true],
    ['if-none-match: "a"', "", false],
    [`if-none-match: "b" | if-modified-since: ${at(0)}`, `last-modified: ${at(0)}`, false],
    [`if-modified-since: ${at(0)}`, `last-modified: ${at(0)}`, true],
    [`if-modified-since: ${at(0)}`, `last-modified: ${at(1)}`, false],
    ["if-modified-since: yesterday", `last-modified: ${at(0)}`, false],
    [`if-modified-since: ${at(0)}`, "", false],
  ] as const
) {
  test(`isNotModified() ${asked} of ${stored}`, () => {
    assert.equal(isNotModified(headersOf(asked), headersOf(stored)), want);
  });
}

test("timeOf() takes the date of RFC 9110 only", () => {
  const texts = [
    "Sat, 21 Nov 2026 07:30:00 GMT",
    "2026-11-21",
    "0",
    "Sat, 41 Nov 2026 07:30:00 GMT",
  ];
  assert.deepEqual(texts.map(timeOf), [NOW, undefined, undefined, undefined]);
});
