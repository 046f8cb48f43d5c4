import assert from "node:assert/strict";
import { test } from "node:test";
import type { Consul } from "../../consul/mod.ts";
import { boundedAuthorize } from "./bounded_authorize.ts";

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
