import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/snapshot_facts.ts";
import type { Intention } from "../../policy/mod.ts";
import { intentionsFor, refusedIntentions } from "./intentions.ts";

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

test("refusedIntentions() names those that deny everything, and no others", () => {
  assert.deepEqual(refusedIntentions([rule("allow"), rule("deny")]), []);
  const [refused] = refusedIntentions([rule("allow", "api"), rule("permissions")]);
  assert.match(refused?.reason ?? "", /denies every connection.*: default\/web => [^,]*$/);
});

test("refusedIntentions() names a few of many", () => {
  const rules = Array.from({ length: 9 }, (_, index) => rule("permissions", `web${index}`));
  const [refused, ...others] = refusedIntentions(rules);
  assert.match(refused?.reason ?? "", /default\/web4 .* and 4 more$/);
  assert.deepEqual(others, []);
});
