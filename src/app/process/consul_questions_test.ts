import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { boundedAuthorize, type CatalogLookParts, createCatalogLook } from "./consul_questions.ts";
import type { Consul } from "../../consul/mod.ts";

const SNAPSHOT = { service: "web", datacenter: "dc1" };

function parts(
  ask: () => Promise<readonly string[]>,
  change: Partial<CatalogLookParts> = {},
): CatalogLookParts {
  return {
    agent: { askFailingChecks: ask },
    source: { status: () => ({}) },
    proxyId: "web-1-sidecar-proxy",
    snapshot: SNAPSHOT,
    ...change,
  };
}

const passing = () => Promise.resolve([]);
const forbidden = () => Promise.reject(new ProxyError("agent_forbidden", "it takes node:read"));
for (
  const [name, given, want] of [
    ["passes", parts(passing), { kind: "known", failing: [] }],
    ["is critical", parts(() => Promise.resolve(["check a is critical"])), {
      kind: "known",
      failing: ["Consul passes it over: check a is critical"],
    }],
    ["may not be seen", parts(forbidden), { kind: "known", failing: ["it takes node:read"] }],
    ["is not known yet", undefined, { kind: "known", failing: ["waiting for the first snapshot"] }],
    ["has no Consul", parts(passing, { agent: undefined }), {
      kind: "unsupported",
      reason: "a proxy with -config is in no catalog of Consul; ask for /ready alone",
    }],
    ["is a gateway", parts(passing, { source: { status: () => ({ isGateway: true }) } }), {
      kind: "unsupported",
      reason: "an ingress gateway is chosen by callers outside the mesh, not by the catalog; ask " +
        "for /ready alone",
    }],
  ] as const
) {
  test(`createCatalogLook() of a proxy that ${name}`, async () => {
    assert.deepEqual(await createCatalogLook(() => given)(), want);
  });
}

test("createCatalogLook() shares one read among concurrent calls", async () => {
  const answers = [
    Promise.withResolvers<readonly string[]>(),
    Promise.withResolvers<readonly string[]>(),
  ];
  const reads: unknown[] = [];
  const look = createCatalogLook(() => ({
    ...parts(passing),
    agent: {
      askFailingChecks(instance) {
        reads.push(instance);
        return answers[reads.length - 1]?.promise ?? Promise.resolve([]);
      },
    },
  }));
  const both = [look(), look()];
  answers[0]?.resolve(["a"]);
  for (const one of both) {
    assert.deepEqual(await one, { kind: "known", failing: ["Consul passes it over: a"] });
  }
  assert.deepEqual(reads, [{ ...SNAPSHOT, proxyId: "web-1-sidecar-proxy" }]);
  answers[1]?.resolve([]);
  assert.deepEqual(await look(), { kind: "known", failing: [] });
});

const REQUEST = { target: "web", uri: "spiffe://x/ns/default/dc/dc1/svc/a", serial: "01" };

test("boundedAuthorize() rejects the 257th pending call at once, and goes on when one has ended", async () => {
  const answers: (() => void)[] = [];
  const agent = {
    authorize: () =>
      new Promise((resolve) => answers.push(() => resolve({ allowed: true, reason: "" }))),
  } as unknown as Consul;
  const authorize = boundedAuthorize(agent);
  const pending = Array.from({ length: 256 }, () => authorize(REQUEST));
  await assert.rejects(authorize(REQUEST), { code: "authorize_failed" });
  assert.equal(answers.length, 256);
  answers[0]?.();
  await pending[0];
  const more = authorize(REQUEST);
  for (const answer of answers) answer();
  assert.deepEqual(await more, { allowed: true, reason: "" });
  await Promise.all(pending);
});

test("boundedAuthorize() rejects without an agent", async () => {
  await assert.rejects(boundedAuthorize(undefined)(REQUEST), { code: "authorize_failed" });
});
