import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError, silentLog } from "../../../../base/mod.ts";
import { FakeClock } from "../../../../../test/kit/clock/clock.ts";
import { MemoryCatalog } from "../../../../../test/kit/consul/memory_catalog.ts";
import { SignOfLife } from "./sign_of_life.ts";

const { signal } = new AbortController();

function start() {
  const catalog = new MemoryCatalog();
  catalog.address = "10.0.0.1";
  const logged: string[] = [];
  const log = { ...silentLog, error: (message: string) => void logged.push(message) };
  const deps = { clock: new FakeClock(), log };
  const life = new SignOfLife({ client: catalog.client, node: "virt-1" }, { proxyId: "web", deps });
  return { catalog, logged, life };
}

test("SignOfLife keeps the names of its last eight sessions", async () => {
  const { catalog, life } = start();
  const names: string[] = [];
  for (let session = 0; session < 10; session++) {
    await life.beat(signal);
    names.push(life.name);
    catalog.expire(life.name);
  }
  assert.equal(new Set(names).size, 10);
  assert.deepEqual([...life.names], names.slice(2));
});

test("SignOfLife creates its session as soon as servers are back, and logs no refusal", async () => {
  const { catalog, logged, life } = start();
  catalog.refuses = () => new ProxyError("agent_unreachable", "no server is in use");
  await assert.rejects(life.beat(signal), { code: "agent_unreachable" });
  catalog.refuses = () => undefined;
  await life.beat(signal);
  assert.deepEqual([life.name !== "", logged], [true, []]);
});
