import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, status } from "../../src/kit/mod.ts";
import canary from "./canary.ts";

/** Users among the first 500 that the subset got. */
async function usersWith(percent: number): Promise<Set<string>> {
  const config = { percent, subset: "v2" };
  await using it = await mount(canary, { config, targets: { v2: [status(202)] } });
  const users = Array.from({ length: 500 }, (_, i) => `user-${i}`);
  const chosen = new Set<string>();
  for (const user of users) {
    const answer = await it.request({ headers: { "x-user": user } });
    if (answer.status === 202) chosen.add(user);
  }
  assert.equal(it.stat("sent"), chosen.size);
  assert.equal(it.targets.v2?.requests.length, chosen.size);
  return chosen;
}

test("canary sends a share of the users to the subset, and they stay there while the share grows", async () => {
  const [none, some, more, all] = await Promise.all([0, 10, 40, 100].map(usersWith));
  assert.deepEqual([none?.size, all?.size], [0, 500]);
  assert.ok(Math.abs((some?.size ?? 0) - 50) < 25, `${some?.size}`);
  assert.ok(more && some?.isSubsetOf(more));
});

test("canary leaves requests without a user where they go", async () => {
  await using it = await mount(canary, { config: { percent: 100, subset: "v2" } });
  assert.equal((await it.request()).status, 200);
  const { failure } = await it.request({ headers: { "x-user": "1" } });
  assert.deepEqual(failure, {
    code: "target_not_found",
    reason: 'canary chose {"subset":"v2"}, which is not there; the test has no targets',
  });
});
