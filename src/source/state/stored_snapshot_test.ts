import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { answeringAgent, SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import type { HashPolicy } from "../../chain/mod.ts";
import type { Intention, Permission } from "../../policy/mod.ts";
import type { PluginUse } from "../../snapshot/mod.ts";
import { storedCredentials, type StoredState } from "./stored_credentials.ts";
import { formatStored, parseStored } from "./stored_snapshot.ts";

/** With credentials from a file whose key has a password. */
async function aState(): Promise<StoredState> {
  await using rig = await new SourceRig(answeringAgent()).start();
  const certificate = { source: "file", pkcs12: "/web.p12", password: { inline: "secret" } };
  const credentials = storedCredentials(facts.registration({ tls: { certificate } }));
  assert.ok(credentials);
  return { snapshot: rig.last, credentials };
}

test("parseStored() gives back what was stored, with and without credentials", async () => {
  const state = await aState();
  const { snapshot } = state;
  for (const stored of [state, { snapshot }]) {
    const parsed = parseStored(formatStored(stored, 5));
    assert.deepEqual(parsed, { kind: "valid", state: stored, savedAtMs: 5 });
  }
});

test("parseStored() gives back permissions, and refuses what it does not know of one", async () => {
  const { snapshot } = await aState();
  const permission: Permission = {
    action: "allow",
    path: { kind: "prefix", value: "/a" },
    methods: ["GET"],
    headers: [{ name: "a", kind: "exact", value: "b", ignoreCase: true, invert: false }],
    tokens: [{ provider: "okta", claims: [{ path: ["role"], value: "admin" }] }],
    refused: "nobody knows how",
  };
  const source = { name: "web", namespace: "default", partition: "default", peer: "" };
  const intention: Intention = {
    ...{ rule: "web", source, precedence: 9, action: "permissions" },
    ...{ permissions: [permission], tokens: [{ provider: "okta", claims: [] }] },
    refused: "nobody knows how",
  };
  const policy = { ...snapshot.policy, intentions: [intention] };
  const text = formatStored({ snapshot: { ...snapshot, policy } }, 5);
  const parsed = parseStored(text);
  assert.deepEqual(parsed.kind === "valid" && parsed.state.snapshot.policy, policy);
  const odd = parseStored(text.replace('"ignoreCase"', '"ignoreAll"'));
  assert.match(odd.kind === "invalid" ? odd.reason : "", /permissions\.0\.headers\.0\.ignore/);
});

test("parseStored() gives back what verifies tokens, so that a demand for them holds", async () => {
  const { snapshot } = await aState();
  const tokens: PluginUse = {
    ...{ plugin: "jwt_auth", config: { providers: {} }, onFailure: "refuse", at: "jwt-provider" },
  };
  const inbound = Object.fromEntries(
    Object.entries(snapshot.inbound).map(([key, part]) => [key, { ...part, tokens }]),
  );
  assert.ok(Object.keys(inbound).length > 0);
  const parsed = parseStored(formatStored({ snapshot: { ...snapshot, inbound } }, 5));
  assert.deepEqual(parsed.kind === "valid" && parsed.state.snapshot.inbound, inbound);
});

test("parseStored() gives back what requests are hashed by and splits ask for, and refuses what it does not know of it", async () => {
  const { snapshot } = await aState();
  const hash: HashPolicy[] = [
    { kind: "header", name: "x-user", terminal: true },
    { kind: "query", name: "q", terminal: false },
    { kind: "cookie", name: "c", made: { maxAgeSeconds: 9, path: "/" }, terminal: false },
    { kind: "cookie", name: "d", made: null, terminal: false },
    { kind: "source", terminal: false },
  ];
  const chains = Object.fromEntries(
    Object.entries(snapshot.chains).map(([key, chain]) => {
      const routes = chain.routes.map((route) => ({
        ...{ ...route, hash },
        splits: route.splits.map((split) => ({ ...split, plugins: { header_rules: {} } })),
      }));
      return [key, { ...chain, routes }];
    }),
  );
  assert.ok(Object.keys(chains).length > 0);
  const text = formatStored({ snapshot: { ...snapshot, chains } }, 5);
  const parsed = parseStored(text);
  assert.deepEqual(parsed.kind === "valid" && parsed.state.snapshot.chains, chains);
  const odd = parseStored(text.replace('"maxAgeSeconds"', '"maxAge"'));
  assert.match(odd.kind === "invalid" ? odd.reason : "", /hash\.2\.made\.maxAge/);
});

for (
  const [name, schema, shown] of [
    ["an older version", 6, "6"],
    ["a newer version", 8, "8"],
    ["nobody knows whom", undefined, "unknown"],
    ["a stranger", "password", "unknown"],
  ] as const
) {
  test(`parseStored() refuses what ${name} wrote, whatever else is in it`, async () => {
    const stored = JSON.parse(formatStored(await aState(), 0));
    const parsed = parseStored(JSON.stringify({ ...stored, schema, more: "password" }));
    assert.deepEqual(parsed, {
      kind: "invalid",
      reason: `another version wrote it: its format is ${shown}, and this one reads 7`,
    });
  });
}

for (
  const [name, harm, reason] of [
    ["another format", (stored) => stored.format = 2, /credentials\.format is not/],
    ["no salt", (stored) => stored.salt = "", /credentials\.salt is not/],
    ["no registration", (stored) => delete stored.registration, /credentials\.registration is not/],
    ["odd upstreams", (stored) => stored.registration.upstreams = [1], /upstreams\.0 is not/],
    ["something unknown", (stored) => stored.registration.more = "password", /more is not/],
  ] as const satisfies readonly (readonly [
    string,
    // deno-lint-ignore no-explicit-any
    (stored: any) => void,
    RegExp,
  ])[]
) {
  test(`parseStored() refuses credentials with ${name}`, async () => {
    const value = JSON.parse(formatStored(await aState(), 0));
    harm(value.credentials);
    const parsed = parseStored(JSON.stringify(value));
    assert.ok(parsed.kind === "invalid");
    assert.match(parsed.reason, reason);
    assert.ok(!parsed.reason.includes("password"));
  });
}
