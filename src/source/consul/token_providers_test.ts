import assert from "node:assert/strict";
import { test } from "node:test";
import jwtAuth from "../../../plugins/jwt_auth/jwt_auth.ts";
import type { JwtKeys, JwtProvider } from "../../consul/mod.ts";
import type { Intention, Permission, TokenNeed } from "../../policy/mod.ts";
import { judgeTokens, providersOf } from "./token_providers.ts";

const need = (...names: readonly string[]): readonly TokenNeed[] =>
  names.map((provider) => ({ provider, claims: [] }));

function rule(said: Partial<Intention>): Intention {
  const source = { name: "web", namespace: "default", partition: "default", peer: "" };
  return { rule: "web", source, action: "permissions", precedence: 9, ...said };
}

const permission = (...names: readonly string[]): Permission => ({
  action: "allow",
  methods: [],
  headers: [],
  ...(names.length > 0 && { tokens: need(...names) }),
});

type Usable = Extract<JwtProvider, { kind: "usable" }>;
const provider = (more: Partial<Usable> = {}): JwtProvider => ({
  kind: "usable",
  issuer: "a",
  audiences: [],
  locations: [],
  clockSkewSeconds: 30,
  keys: { kind: "text", jwks: "e30=" },
  ...more,
});
const remote = (more: Partial<Extract<JwtKeys, { kind: "remote" }>> = {}): JwtKeys => ({
  kind: "remote",
  uri: "https://idp/keys",
  requestTimeoutMs: 0,
  cacheDurationMs: 0,
  fetchAsynchronously: false,
  retries: 0,
  baseIntervalMs: 0,
  maxIntervalMs: 0,
  ...more,
});
const HTTP = { http: true };

test("providersOf() has all that intentions and permissions name, once", () => {
  const rules = [
    rule({ tokens: need("b"), permissions: [permission("c", "a"), permission()] }),
    rule({ action: "allow", tokens: need("a") }),
  ];
  assert.deepEqual(providersOf(rules), ["a", "b", "c"]);
});

test("judgeTokens() changes nothing where no token is demanded, nor on a tcp service", () => {
  const rules = [rule({ permissions: [permission()] })];
  const none = { use: undefined, unread: [] };
  assert.deepEqual(judgeTokens(rules, new Map(), HTTP), { intentions: rules, ...none });
  const demanding = [rule({ action: "allow", tokens: need("a") })];
  const judged = judgeTokens(demanding, new Map(), { http: false });
  assert.deepEqual(judged, { intentions: demanding, ...none });
});

test("judgeTokens() allows no request by a provider that cannot be used, and keeps the others", () => {
  const rules = [
    rule({ permissions: [permission("gone"), permission("okta", "gone"), permission("okta")] }),
    rule({ action: "allow", tokens: need("gone") }),
  ];
  const { intentions, use } = judgeTokens(
    rules,
    new Map([["gone", null], ["okta", provider()]]),
    HTTP,
  );
  const gone = 'its tokens cannot be verified: jwt-provider "gone": there is none';
  const refusals = intentions[0]?.permissions?.map(({ refused }) => refused);
  assert.deepEqual(refusals, [gone, undefined, undefined]);
  assert.equal(intentions[1]?.refused, gone);
  assert.deepEqual(Object.keys((use?.config as { providers: object }).providers), ["okta"]);
});

for (
  const [what, value, reason] of [
    ["one that was not read yet", undefined, /has not been read/],
    ["one that is not there", null, /there is none/],
    ["one that is not understood", { kind: "refused", reason: "of no kind" }, /of no kind/],
    ["one of nobody", provider({ issuer: "" }), /no issuer/],
    ["a negative skew", provider({ clockSkewSeconds: -1 }), /below 0/],
    ["a negative time", provider({ keys: remote({ cacheDurationMs: -1 }) }), /below 0/],
    [
      "a header that is none",
      provider({ locations: [{ header: { name: "a b", valuePrefix: "", forward: false } }] }),
      /no header's name/,
    ],
    [
      "a forwarded header that is none",
      provider({ forwarding: { headerName: "a:", padForwardPayloadHeader: false } }),
      /"a:" cannot be forwarded/,
    ],
    [
      "a forwarded header that says where a message ends",
      provider({ forwarding: { headerName: "Content-Length", padForwardPayloadHeader: false } }),
      /cannot be forwarded: it is of one connection/,
    ],
    [
      "too many locations",
      provider({ locations: Array(17).fill({ cookie: { name: "a" } }) }),
      /more than 16/,
    ],
    ["keys that are no Base64", provider({ keys: { kind: "text", jwks: "{}" } }), /not Base64/],
    ["a relative file", provider({ keys: { kind: "file", filename: "a" } }), /relative/],
    ["keys of a file by a URI", provider({ keys: remote({ uri: "file:///a" }) }), /neither http/],
    ["keys of nobody", provider({ keys: remote({ uri: "http://" }) }), /neither http/],
  ] as const
) {
  test(`judgeTokens() verifies no token by ${what}`, () => {
    const providers = new Map(value === undefined ? [] : [["okta", value as JwtProvider | null]]);
    const rules = [rule({ action: "allow", tokens: need("okta") })];
    const { intentions, use, unread } = judgeTokens(rules, providers, HTTP);
    assert.match(intentions[0]?.refused ?? "", reason);
    assert.equal(use, undefined);
    assert.deepEqual(unread, value === undefined ? ["okta"] : []);
  });
}

for (
  const [what, value] of [
    ["is not understood", { kind: "refused", reason: "a", headerName: "X-Claims" }],
    [
      "has no keys",
      provider({
        forwarding: { headerName: "X-Claims", padForwardPayloadHeader: true },
        keys: { kind: "text", jwks: "{}" },
      }),
    ],
  ] as const
) {
  test(`judgeTokens() removes forged claim headers of a provider that ${what}`, () => {
    const rules = [rule({ action: "allow", tokens: need("okta") })];
    const { intentions, use } = judgeTokens(rules, new Map([["okta", value]]), HTTP);
    assert.notEqual(intentions[0]?.refused, undefined);
    const judged = jwtAuth.config["~standard"].validate(use?.config);
    assert.ok(!(judged instanceof Promise) && !judged.issues);
    assert.equal(judged.value.providers["okta"]?.forwarding?.headerName, "x-claims");
  });
}

test("judgeTokens() uses no more than 16 providers", () => {
  const names = Array.from({ length: 17 }, (_, index) => `p${String(index).padStart(2, "0")}`);
  const rules = names.map((name) => rule({ action: "allow", tokens: need(name) }));
  const providers = new Map(names.map((name) => [name, provider()]));
  const { intentions } = judgeTokens(rules, providers, HTTP);
  assert.deepEqual(intentions.filter(({ refused }) => refused !== undefined).length, 1);
});

for (
  const [what, value] of [
    ["with little said", provider()],
    ["from a file", provider({ keys: { kind: "file", filename: "/a b.json" } })],
    ["with nothing said of what is fetched", provider({ keys: remote() })],
    [
      "with all of it",
      provider({
        audiences: ["a", ""],
        locations: [
          { header: { name: "X-A", valuePrefix: "", forward: true } },
          { queryParam: { name: "a" } },
          { cookie: { name: "a" } },
        ],
        forwarding: { headerName: "x-b", padForwardPayloadHeader: true },
        cacheSize: 1e9,
        keys: remote({
          requestTimeoutMs: 60_000,
          cacheDurationMs: 0.5,
          retries: 1e9,
          baseIntervalMs: 1e12,
          fetchAsynchronously: true,
          maxIntervalMs: 1,
        }),
      }),
    ],
  ] as const
) {
  test(`judgeTokens() makes of a provider what the plugin takes: ${what}`, () => {
    const rules = [rule({ action: "allow", tokens: need("okta") })];
    const { use } = judgeTokens(rules, new Map([["okta", value]]), HTTP);
    const judged = jwtAuth.config["~standard"].validate(use?.config);
    assert.ok(!(judged instanceof Promise));
    assert.deepEqual(judged.issues, undefined);
  });
}
