import assert from "node:assert/strict";
import { test } from "node:test";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { readJwtProvider } from "./jwt_provider.ts";

test("readJwtProvider() reads an entry of a real agent", () => {
  assert.deepEqual(readJwtProvider(fixture("config_jwt_provider")), {
    kind: "usable",
    issuer: "https://idp.example",
    audiences: ["api"],
    keys: { kind: "text", jwks: "eyJrZXlzIjpbXX0=" },
    locations: [
      { header: { name: "Authorization", valuePrefix: "Bearer ", forward: true } },
      { queryParam: { name: "tok" } },
      { cookie: { name: "sess" } },
    ],
    forwarding: { headerName: "x-jwt", padForwardPayloadHeader: true },
    clockSkewSeconds: 45,
    cacheSize: 20,
  });
  assert.equal(readJwtProvider(null), null);
});

const REMOTE = fixture("config_jwt_provider_remote") as {
  JSONWebKeySet: { Remote: Record<string, unknown> };
};

test("readJwtProvider() refuses remote keys with TLSCertificates, which are not followed", () => {
  const read = readJwtProvider(REMOTE);
  assert.match(read?.kind === "refused" ? read.reason : "", /TLSCertificates is not followed/);
  const Forwarding = { HeaderName: "x-claims", Later: true };
  const more = readJwtProvider({ ...REMOTE, Forwarding });
  assert.equal(more?.kind === "refused" && more.headerName, "x-claims");
});

test("readJwtProvider() reads the settings of remote keys", () => {
  const Remote = { ...REMOTE.JSONWebKeySet.Remote, JWKSCluster: null };
  const read = readJwtProvider({ ...REMOTE, JSONWebKeySet: { Remote } });
  assert.deepEqual(read?.kind === "usable" && read.keys, {
    kind: "remote",
    uri: "https://idp2.example/jwks",
    requestTimeoutMs: 500,
    cacheDurationMs: 1_800_000,
    fetchAsynchronously: true,
    retries: 2,
    baseIntervalMs: 1_000,
    maxIntervalMs: 10_000,
  });
});

const LOCAL = { Local: { JWKS: "e30=" } };

for (
  const [what, entry, reason] of [
    ["no keys", {}, /JSONWebKeySet is missing/],
    ["empty keys", { JSONWebKeySet: {} }, /JSONWebKeySet is empty/],
    ["empty local keys", { JSONWebKeySet: { Local: {} } }, /Local is empty/],
    ["two kinds of keys", { JSONWebKeySet: { ...LOCAL, Remote: {} } }, /both Local and Remote/],
    [
      "two local key sets",
      { JSONWebKeySet: { Local: { JWKS: "a", Filename: "/a" } } },
      /both JWKS/,
    ],
    ["another kind of keys", { JSONWebKeySet: { Vault: {} } }, /JSONWebKeySet\.Vault is not known/],
    ["a location without a place", { JSONWebKeySet: LOCAL, Locations: [{}] }, /exactly one place/],
    [
      "another kind of location",
      { JSONWebKeySet: LOCAL, Locations: [{ Body: {} }] },
      /Locations\.0\.Body is not known here/,
    ],
    ["an invalid clock skew", { JSONWebKeySet: LOCAL, ClockSkewSeconds: "a" }, /ClockSkewSeconds/],
  ] as const
) {
  test(`readJwtProvider() gives no keys for ${what}`, () => {
    const read = readJwtProvider({ Issuer: "a", ...entry });
    assert.match(read?.kind === "refused" ? read.reason : "", reason);
  });
}
