import assert from "node:assert/strict";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import tenantRateLimit from "./tenant_rate_limit.ts";

async function limit(perSecond: number) {
  const it = await mount(tenantRateLimit, { config: { perSecond } });
  const ask = async (tenant: string) => {
    const { failure, headers } = await it.request({ headers: { "x-tenant": tenant } });
    return failure ? `${failure.code} ${headers.get("retry-after")}` : "ok";
  };
  return { it, ask, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("tenant_rate_limit limits each tenant, and sends retry-after with a refusal", async () => {
  await using made = await limit(2);
  const { it, ask } = made;
  const thrice = async () => [await ask("a"), await ask("a"), await ask("a")];
  assert.deepEqual(await thrice(), ["ok", "ok", "rate_limited 1"]);
  assert.equal(await ask("b"), "ok");
  await it.reload({ perSecond: 2 });
  assert.equal(await ask("a"), "rate_limited 1");
  await it.clock.advance(500);
  assert.deepEqual([await ask("a"), await ask("a")], ["ok", "rate_limited 1"]);
  await it.clock.advance(60_000);
  assert.deepEqual(await thrice(), ["ok", "ok", "rate_limited 1"]);
  assert.equal(it.stat("refused"), 4);
});

test("tenant_rate_limit drops the least recent tenant above its limit", async () => {
  await using made = await limit(1);
  const { ask } = made;
  for (const tenant of ["first", "second"]) assert.equal(await ask(tenant), "ok");
  assert.equal(await ask("first"), "rate_limited 1");
  for (let i = 0; i < 9_999; i++) await ask(`${i}`);
  assert.deepEqual([await ask("first"), await ask("second")], ["rate_limited 1", "ok"]);
});
