import assert from "node:assert/strict";
import { test } from "node:test";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import {
  caValidation,
  certificatePart,
  withOwn,
} from "../../../test/kit/secrets/own_credentials.ts";
import {
  anybodyOf,
  CA,
  choose,
  dns,
  KEY,
  MESH,
  NOW_MS,
  OPTIONAL,
  OTHER,
  trustOf,
  WEB,
  world,
} from "../../../test/kit/engine/trusts.ts";
import { type PeerRules } from "../../identity/mod.ts";
import { type Snapshot } from "../../snapshot/mod.ts";
import type { TrustContext } from "./trust_context.ts";

/** Two successive generations of the same listener. */
function after(first: Snapshot, second: Snapshot, key: string | null = KEY) {
  const place = world();
  const before = trustOf(first, { key, in: place });
  const seen = choose(before);
  const next = trustOf(second, { key, in: place, previous: before });
  return { place, before, next, seen, otherwise: next.judgesOtherwise(before) };
}

const FILES = withOwn(MESH, KEY, {
  certificates: { web: certificatePart(WEB, { dnsNames: ["web.example"] }) },
  validation: anybodyOf(),
});
const ROTATED: Snapshot = {
  ...FILES,
  certificates: { web: certificatePart(CA.issueLeaf({ service: "web" })) },
};

test("a new Trust with another certificate keeps the judge, but no settings or tickets", () => {
  const { before, next, seen, otherwise } = after(FILES, ROTATED);
  assert.equal(otherwise, false);
  assert.notEqual(choose(next), seen);
  assert.notEqual(next.tickets, before.tickets);
});

test("a new Trust keeps the settings of an unchanged certificate", () => {
  const more = withOwn(FILES, KEY, {
    certificates: {
      ...FILES.certificates,
      api: certificatePart(WEB, { dnsNames: ["api.example"] }),
    },
    own: { validation: `${KEY} validation` },
  });
  const { before, next, seen, otherwise } = after(FILES, more);
  assert.equal(otherwise, false);
  assert.equal(choose(next, "web.example"), seen);
  assert.notEqual(next.tickets, before.tickets);
});

const withRules = (rules: Partial<PeerRules>) => ({
  ...FILES,
  validations: withOwn(FILES, KEY, { validation: anybodyOf(rules) }).validations,
});
const withOwnPart = (part: object): Snapshot => ({
  ...FILES,
  ownCredentials: withOwn(FILES, KEY, {
    certificates: FILES.certificates,
    own: { validation: `${KEY} validation`, ...part },
  }).ownCredentials,
});
for (
  const [name, second, otherwise, sameSettings] of [
    [
      "other roots",
      withOwn(FILES, KEY, {
        certificates: FILES.certificates,
        validation: caValidation([OTHER]),
      }),
      true,
      false,
    ],
    ["another name", withRules({ matchers: dns("a.example") }), true, false],
    ["missing rules", withOwnPart({ validation: "gone" }), true, false],
    ["no certificate requested", withOwnPart({ validation: null, ...OPTIONAL }), true, false],
    ["optional certificates", withOwnPart(OPTIONAL), true, true],
    ["missing secrets", withOwnPart({ missing: ["x"] }), true, true],
    ["other trust domains", withOwnPart({ trustDomains: ["b.consul"] }), true, false],
    [
      "other TLS versions",
      withOwnPart({
        tls: { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", cipherSuites: [] },
      }),
      false,
      false,
    ],
    ["the same rules in a new part", withOwnPart({ defaultName: "x" }), false, true],
  ] as const
) {
  test(`a new Trust with ${name} ${otherwise ? "judges peers again" : "judges no peer again"}`, () => {
    const result = after(FILES, second);
    assert.equal(result.otherwise, otherwise);
    assert.equal(choose(result.next) === result.seen, sameSettings);
  });
}

test("a new Trust after a rotation of the mesh's roots judges by the new ones", () => {
  const { credentials } = MESH;
  const rotated: Snapshot = {
    ...MESH,
    credentials: { ...credentials, version: credentials.version + 1, rootPems: [OTHER.rootPem] },
  };
  const { next, otherwise, seen } = after(MESH, rotated, null);
  assert.equal(otherwise, true);
  assert.notEqual(choose(next), seen);
  assert.equal(next.verify(presented(WEB), { usage: "client", nowMs: NOW_MS }).kind, "untrusted");
});

test("a new Trust drops the settings of removed certificates", () => {
  const place = world();
  const api = withOwn(FILES, KEY, {
    certificates: {
      ...FILES.certificates,
      api: certificatePart(WEB, { dnsNames: ["api.example"] }),
    },
    own: { validation: `${KEY} validation` },
  });
  let previous: TrustContext | undefined;
  for (
    const [snapshot, name, made] of [
      [api, "api.example", 1],
      [FILES, "web.example", 2],
      [api, "web.example", 2],
      [api, "api.example", 3],
    ] as const
  ) {
    const trust = trustOf(snapshot, { key: KEY, in: place, ...previous && { previous } });
    trust.begin();
    choose(trust, name);
    assert.equal(place.engine.servers.length, made);
    previous = trust;
  }
});
