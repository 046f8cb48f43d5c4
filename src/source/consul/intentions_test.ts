import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { Intention } from "../../policy/mod.ts";
import { intentionsFor, refusedIntentions } from "./token_providers.ts";

function rule(action: Intention["action"], name = "web"): Intention {
  const source = { name, namespace: "default", partition: "default", peer: "" };
  return { rule: `default/${name} => default/db (${action})`, source, action, precedence: 9 };
}

for (
  const [name, registered, namespace] of [
    ["the agent knows no namespaces", {}, "*"],
    ["the agent knows them", { hasTenancy: true }, "default"],
  ] as const
) {
  test(`intentionsFor() takes a denial for namespace ${namespace} where ${name}`, () => {
    const registration = facts.registration(registered);
    const [deny, allow] = intentionsFor(registration, [rule("deny"), rule("allow")]);
    assert.equal(deny?.source.namespace, namespace);
    assert.equal(deny?.source.partition, namespace);
    assert.equal(allow?.source.namespace, "default");
  });
}

const TCP = { http: false };
const HTTP = { http: true };

test("refusedIntentions() names those that deny everything, and no others", () => {
  assert.deepEqual(refusedIntentions([rule("allow"), rule("deny")], TCP), []);
  const [refused] = refusedIntentions([rule("allow", "api"), rule("permissions")], TCP);
  assert.match(refused?.reason ?? "", /denies every connection.*: default\/web => [^,]*$/);
});

test("refusedIntentions() reports tokens on a tcp service", () => {
  const asking = { ...rule("allow"), tokens: [{ provider: "okta", claims: [] }] };
  assert.match(refusedIntentions([asking], TCP)[0]?.reason ?? "", /allows its source without one/);
  assert.deepEqual(refusedIntentions([asking], HTTP), []);
});

test("refusedIntentions() names a few of many", () => {
  const rules = Array.from({ length: 9 }, (_, index) => rule("permissions", `web${index}`));
  const [refused, ...others] = refusedIntentions(rules, TCP);
  assert.match(refused?.reason ?? "", /default\/web4 .* and 4 more$/);
  assert.deepEqual(others, []);
});

test("refusedIntentions() names intentions of an HTTP service that cannot be judged", () => {
  const plain = { action: "allow", methods: [], headers: [] } as const;
  const odd = { ...plain, refused: "nobody knows how" };
  const layered = { ...rule("permissions"), permissions: [plain, odd] };
  const asking = { ...rule("allow", "api"), refused: "nobody knows how" };
  assert.deepEqual(refusedIntentions([{ ...layered, permissions: [plain] }], HTTP), []);
  const [refused] = refusedIntentions([layered, asking], HTTP);
  assert.equal(
    refused?.reason,
    "what they cover is denied: " +
      "default/web => default/db (permissions), permission 2: nobody knows how, " +
      "default/api => default/db (allow): nobody knows how",
  );
});
