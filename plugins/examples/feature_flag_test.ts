import assert from "node:assert/strict";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import featureFlag from "./feature_flag.ts";

/** Users among the first 1,000 with feature `a`. */
async function usersWith(percent: number): Promise<Set<string>> {
  await using it = await mount(featureFlag, { config: { features: { a: percent } } });
  const users = Array.from({ length: 1_000 }, (_, i) => `user-${i}`);
  for (const user of users) await it.request({ headers: { "x-user": user } });
  return new Set(users.filter((_, i) => it.upstream.requests[i]?.header("x-features") === "a"));
}

test("feature_flag gives a share of all users a feature, and they keep it while the share grows", async () => {
  const [none, some, more, all] = await Promise.all([0, 20, 40, 100].map(usersWith));
  assert.deepEqual([none?.size, all?.size], [0, 1_000]);
  assert.ok(Math.abs((some?.size ?? 0) - 200) < 50, `${some?.size}`);
  assert.ok(Math.abs((more?.size ?? 0) - 400) < 50, `${more?.size}`);
  assert.ok(more && some?.isSubsetOf(more));
});

test("feature_flag removes the caller's own header, and gives requests without a user no feature", async () => {
  const config = { by: "x-id", features: { a: 100, b: 100, c: 0 } };
  await using it = await mount(featureFlag, { config });
  await it.request({ headers: { "x-id": "1", "x-features": "c" } });
  await it.request({ headers: { "x-features": "c" } });
  assert.deepEqual(it.upstream.requests.map((seen) => seen.headers("x-features")), [["a,b"], []]);
});
