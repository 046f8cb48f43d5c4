import assert from "node:assert/strict";
import { test } from "node:test";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { readIntentions, readJwt, readPermission } from "./intentions.ts";

test("readIntentions() reads the permissions of a real agent", () => {
  const web = readIntentions(fixture("intentions_match_l7"), "api")
    .find(({ source }) => source.name === "web");
  assert.equal(web?.rule, "default/web => default/api (precedence 9, permissions)");
  const roles = { path: ["roles", "0"], value: "admin" };
  assert.deepEqual([web?.tokens, web?.refused], [
    [{ provider: "okta", claims: [roles] }],
    undefined,
  ]);
  const plain = { ignoreCase: false, invert: false };
  assert.deepEqual(web?.permissions, [
    {
      action: "allow",
      path: { kind: "exact", value: "/exact" },
      methods: ["GET", "POST"],
      headers: [
        { ...plain, name: "x-a", kind: "present", value: "" },
        { ...plain, name: "x-b", kind: "exact", value: "1", ignoreCase: true },
        { ...plain, name: "x-c", kind: "prefix", value: "p", invert: true },
        { ...plain, name: "x-d", kind: "suffix", value: "s" },
        { ...plain, name: "x-e", kind: "regex", value: "r.*" },
        { ...plain, name: "x-f", kind: "contains", value: "c" },
      ],
    },
    { action: "deny", path: { kind: "prefix", value: "/admin" }, methods: [], headers: [] },
    {
      action: "allow",
      path: { kind: "regex", value: "/r[0-9]+" },
      methods: [],
      headers: [],
      tokens: [{ provider: "remote", claims: [{ path: ["sub"], value: "x" }] }],
    },
  ]);
});

test("readIntentions() keeps JWT demands of allow rules, and drops those of deny rules", () => {
  const all = readIntentions(fixture("intentions_match_l7"), "api");
  assert.deepEqual(
    all.map(({ source, action, tokens }) => `${source.name} ${action} ${tokens?.[0]?.provider}`),
    [
      "batch allow okta",
      "web permissions okta",
      "peered allow okta",
      "* deny undefined",
      "* deny undefined",
      "admin allow undefined",
      "* deny undefined",
    ],
  );
});

test("readIntentions() refuses permissions for a sameness group", () => {
  const json = [{
    SourceName: "a",
    SourceSamenessGroup: "g",
    DestinationName: "web",
    Permissions: [{ Action: "allow", HTTP: { PathPrefix: "/" } }],
  }];
  assert.match(readIntentions({ web: json }, "web")[0]?.refused ?? "", /sameness group/);
});

for (
  const [name, json, reason] of [
    ["a kind of path", { HTTP: { PathTemplate: "/{a}" } }, /HTTP\.PathTemplate is not known here/],
    ["a kind of header match", {
      HTTP: { Header: [{ Name: "a", Exact: "b", Range: 1 }] },
    }, /HTTP\.Header\.0\.Range is not known here/],
    ["a condition beside HTTP", { GRPC: { Method: "a" } }, /GRPC is not known here/],
    ["an action", { Action: "audit" }, /Action must be "allow" or "deny"/],
    ["no action", { Action: undefined }, /Action is missing/],
    ["two paths", { HTTP: { PathExact: "/a", PathPrefix: "/b" } }, /more than one path/],
    ["a header without a match", { HTTP: { Header: [{ Name: "a" }] } }, /exactly one kind/],
    ["a header with two", { HTTP: { Header: [{ Name: "a", Exact: "b", Present: true }] } }, /one/],
    [
      "a header without a name",
      { HTTP: { Header: [{ Exact: "b" }] } },
      /Header\.0\.Name is missing/,
    ],
    ["invalid methods", { HTTP: { Methods: [1] } }, /Methods\.0 must be a text/],
  ] as [string, Record<string, unknown>, RegExp][]
) {
  test(`readPermission() denies every request for ${name}`, () => {
    const { refused, ...rest } = readPermission({ Action: "allow", ...json });
    assert.match(refused ?? "", reason);
    assert.deepEqual(rest, { action: "deny", methods: [], headers: [] });
  });
}

for (const json of [null, [], "allow", 1]) {
  test(`readPermission() denies every request for ${JSON.stringify(json)}`, () => {
    const { action, refused, path } = readPermission(json);
    assert.deepEqual([action, path], ["deny", undefined]);
    assert.match(refused ?? "", /not understood/);
  });
}

test("readPermission() reads Consul's empty values, and names in any case", () => {
  assert.deepEqual(
    readPermission({
      Action: "allow",
      JWT: null,
      HTTP: {
        PathExact: "",
        Methods: ["get"],
        Header: [{ Name: "X-A", Present: true, Regex: "", Invert: null }],
      },
    }),
    {
      action: "allow",
      methods: ["GET"],
      headers: [{ name: "x-a", kind: "present", value: "", ignoreCase: false, invert: false }],
    },
  );
  // Consul configures Envoy to match any request here.
  for (const HTTP of [undefined, null, {}, { Header: null, Methods: [] }]) {
    const read = readPermission({ Action: "allow", HTTP });
    assert.deepEqual(read, { action: "allow", methods: [], headers: [] });
  }
});

const okta = (...claims: readonly object[]) => [{ provider: "okta", claims }];

for (
  const [jwt, want] of [
    [undefined, {}],
    [null, {}],
    [{ Providers: null }, {}],
    [{ Providers: [] }, {}],
    [{}, {}],
    [{ Providers: [{ Name: "okta" }] }, { tokens: okta() }],
    [{ Providers: [{ Name: "okta", VerifyClaims: null }] }, { tokens: okta() }],
    [
      { Providers: [{ Name: "okta", VerifyClaims: [{ Path: ["a", "b"], Value: "" }] }] },
      { tokens: okta({ path: ["a", "b"], value: "" }) },
    ],
    [{ Issuers: [] }, /Issuers is not known here/],
    ["okta", /must be an object/],
    [{ Providers: [{ Name: "" }] }, /Providers\.0\.Name/],
    [{ Providers: [{ Name: "okta", Audience: "a" }] }, /Audience is not known here/],
    [{ Providers: [{ Name: "okta", VerifyClaims: [{ Path: [], Value: "a" }] }] }, /Path/],
    [{ Providers: [{ Name: "okta", VerifyClaims: [{ Path: ["a"], Regex: "a" }] }] }, /Regex/],
  ] as const
) {
  test(`readJwt() of ${JSON.stringify(jwt)}`, () => {
    const read = readJwt(jwt);
    if (want instanceof RegExp) assert.match(read.refused ?? "", want);
    else assert.deepEqual(read, want);
  });
}
