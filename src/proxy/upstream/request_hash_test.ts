import assert from "node:assert/strict";
import { test } from "node:test";
import type { HashPolicy, MadeCookie } from "../../chain/mod.ts";
import { addField, type RequestHead } from "../../http/mod.ts";
import { hashOfRequest } from "./request_hash.ts";

interface Ask {
  readonly path?: string;
  readonly host?: string;
  readonly remote?: string;
  readonly fields?: readonly (readonly [name: string, value: string])[];
}

function ask(policies: readonly HashPolicy[], { path = "/", host = "db", ...rest }: Ask = {}) {
  const request: RequestHead = {
    method: "GET",
    scheme: "http",
    authority: host,
    path,
    upgrade: "",
    length: 0,
    saysLength: false,
    expectsContinue: false,
    version: "HTTP/1.1",
    fields: [],
  };
  for (const [name, value] of rest.fields ?? []) addField(request.fields, name, value);
  const cookies: string[] = [];
  const hash = hashOfRequest(policies, {
    request,
    remote: rest.remote ?? "127.0.0.1:40312",
    cookies: { takeCookie: (cookie) => void cookies.push(cookie) },
  });
  return { hash, cookies };
}

const header = (name: string, terminal = false): HashPolicy => ({ kind: "header", name, terminal });
const query = (name: string, terminal = false): HashPolicy => ({ kind: "query", name, terminal });
const cookie = (made: MadeCookie | null = null, terminal = false): HashPolicy => ({
  kind: "cookie",
  name: "c",
  made,
  terminal,
});
const SOURCE: HashPolicy = { kind: "source", terminal: false };
const sent = (...fields: (readonly [string, string])[]): Ask => ({ fields });
const from = (...forwarded: string[]): Ask => ({
  fields: forwarded.map((value) => ["x-forwarded-for", value]),
});

// As Envoy 1.40 reads what a real Consul gives it.
for (
  const [what, policy, given] of [
    ["an absent header", header("x-user"), {}],
    ["an absent parameter", query("q"), { path: "/q?other=1" }],
    ["a parameter in another case", query("q"), { path: "/?Q=1" }],
    ["a parameter with an encoded name", query("q"), { path: "/?%71=1" }],
    ["a parameter after a semicolon", query("q"), { path: "/?a=1;q=2" }],
    ["a parameter that only begins so", query("q"), { path: "/?qq=1" }],
    ["a parameter in the path", query("q"), { path: "/q=1" }],
    ["an absent cookie", cookie(), sent(["cookie", "b=1; cc=2; bc=3"])],
    ["an empty cookie", cookie(), sent(["cookie", "c=; b=1"])],
    ["an empty cookie in quotes", cookie(), sent(["cookie", 'c=""'])],
    ["a cookie's name in another's value", cookie(), sent(["cookie", "b=c=1"])],
    ["the address of a unix socket", SOURCE, { remote: "unix" }],
  ] as [string, HashPolicy, Ask][]
) {
  test(`RequestHash finds nothing in ${what}`, () => {
    assert.deepEqual(ask([policy], given), { hash: undefined, cookies: [] });
  });
}

for (
  const [what, policy, one, other] of [
    ["a header sent again", header("x-user"), sent(["x-user", "1"]), sent(["x-user", "1"])],
    [
      "several of one name in any order",
      header("x-user"),
      sent(["x-user", "1"], ["x-user", "2"]),
      sent(["x-user", "2"], ["x-other", ""], ["x-user", "1"]),
    ],
    ["the host, by either name", header("host"), { host: "a" }, { host: "a", path: "/b" }],
    ["the method", header(":method"), { host: "a" }, { host: "b" }],
    ["the first parameter", query("q"), { path: "/?q=1&q=2" }, { path: "/?a=1&q=1" }],
    ["one without a value", query("q"), { path: "/?q" }, { path: "/?a&q=" }],
    ["the first cookie", cookie(), sent(["cookie", "c=1; c=2"]), sent(["cookie", "b=2;   c=1"])],
    ["a cookie in quotes", cookie(), sent(["cookie", 'c="1"']), sent(["cookie", "c=1"])],
    [
      "a cookie of the second field",
      cookie(),
      sent(["cookie", "b=1"], ["cookie", "c=1"]),
      sent(["cookie", "c=1"]),
    ],
    ["a caller's other port", SOURCE, { remote: "10.0.0.1:1" }, { remote: "10.0.0.1:2" }],
    [
      "the last one forwarded for",
      SOURCE,
      from("10.0.0.1, 10.0.0.9"),
      { ...from("10.0.0.2", "10.0.0.9"), remote: "127.0.0.2:1" },
    ],
    ["an invalid address", SOURCE, {}, from("unknown")],
    ["an address with a port", SOURCE, {}, from("10.0.0.1:80")],
  ] as [string, HashPolicy, Ask, Ask][]
) {
  test(`RequestHash is equal for ${what}`, () => {
    const { hash } = ask([policy], one);
    assert.notEqual(hash, undefined);
    assert.equal(ask([policy], other).hash, hash);
  });
}

for (
  const [what, policies, one, other] of [
    ["values of a header", [header("x-user")], sent(["x-user", "1"]), sent(["x-user", "2"])],
    ["an empty header and none", [header("x-user")], sent(["x-user", ""]), {}],
    [
      "second values of a header",
      [header("x-user")],
      sent(["x-user", "1"], ["x-user", "2"]),
      sent(["x-user", "1"], ["x-user", "3"]),
    ],
    ["hosts", [header(":authority")], { host: "a" }, { host: "b" }],
    ["paths with their queries", [header(":path")], { path: "/?1" }, { path: "/?2" }],
    ["values of a parameter", [query("q")], { path: "/?q=1" }, { path: "/?q=2" }],
    ["spellings of a parameter", [query("q")], { path: "/?q=a" }, { path: "/?q=%61" }],
    ["spaces in a cookie", [cookie()], sent(["cookie", "c= 1"]), sent(["cookie", "c=1"])],
    ["callers", [SOURCE], { remote: "10.0.0.1:1" }, { remote: "10.0.0.2:1" }],
    ["IPv6 callers", [SOURCE], from("fe80::1"), from("fe80::2")],
    [
      "values of the same header twice",
      [header("x-user"), header("x-user")],
      sent(["x-user", "1"]),
      sent(["x-user", "2"]),
    ],
    [
      "swapped values of two headers",
      [header("a"), header("b")],
      sent(["a", "1"], ["b", "2"]),
      sent(["a", "2"], ["b", "1"]),
    ],
    ["values of a later policy", [header("a", true), query("q")], {}, { path: "/?q=1" }],
  ] as [string, HashPolicy[], Ask, Ask][]
) {
  test(`RequestHash differs for ${what}`, () => {
    assert.notEqual(ask(policies, one).hash, ask(policies, other).hash);
  });
}

test("RequestHash stops at a terminal policy once any policy gave a hash", () => {
  // The cookie is absent.
  const policies = [header("x-user"), cookie(null, true), query("q")];
  const user: Ask = sent(["x-user", "1"]);
  assert.equal(
    ask(policies, { ...user, path: "/?q=1" }).hash,
    ask(policies, { ...user, path: "/?q=2" }).hash,
  );
  assert.notEqual(
    ask(policies, { path: "/?q=1" }).hash,
    ask(policies, { path: "/?q=2" }).hash,
  );
});

for (
  const [what, made, attributes] of [
    ["of the session", { maxAgeSeconds: 0, path: "" }, "; HttpOnly"],
    ["with an age", { maxAgeSeconds: 90, path: "" }, "; Max-Age=90; HttpOnly"],
    ["with a path", { maxAgeSeconds: 90, path: "/p" }, "; Max-Age=90; Path=/p; HttpOnly"],
  ] as const
) {
  test(`RequestHash makes a cookie ${what} for a request without it, and uses it later`, () => {
    const first = ask([cookie(made)]);
    assert.equal(first.cookies.length, 1);
    const [, value, rest] = /^c=("[0-9a-f]{16}")(.*)$/.exec(first.cookies[0] ?? "") ?? [];
    assert.equal(rest, attributes);
    const again = ask([cookie(made)], {
      ...sent(["cookie", `c=${value}`]),
      remote: "127.0.0.1:5",
    });
    assert.deepEqual(again, { hash: first.hash, cookies: [] });
    assert.deepEqual(ask([cookie(made)]), first, "another request of the same connection");
    assert.notEqual(ask([cookie(made)], { remote: "127.0.0.1:5" }).hash, first.hash);
  });
}

test("RequestHash makes no cookie after a terminal policy", () => {
  const made = { maxAgeSeconds: 0, path: "" };
  const { cookies } = ask([header("x-user", true), cookie(made)], sent(["x-user", "1"]));
  assert.deepEqual(cookies, []);
});

test("RequestHash does not give all callers at a unix socket the same cookie", () => {
  const made = (id: string) =>
    ask([cookie({ maxAgeSeconds: 0, path: "" })], {
      ...sent(["x-request-id", id]),
      remote: "unix",
    }).hash;
  assert.notEqual(made("1"), made("2"));
});
