/** What a `ConsulSource` does with the snapshot of an earlier run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ScriptedAgent } from "../../../test/kit/consul/scripted_agent_watches.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import {
  answeringAgent,
  CA,
  MemoryStateStore,
  SourceRig,
} from "../../../test/kit/consul/snapshot_source.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";

const DB_TARGET = "service:default/default/db#db.default.default.dc1";

const storeOf = (snapshot: Snapshot) => new MemoryStateStore({ snapshot });

async function storedSnapshot(): Promise<Snapshot> {
  const store = new MemoryStateStore();
  await using rig = await new SourceRig(answeringAgent(), { store }).start();
  assert.equal(store.saved?.snapshot, rig.last);
  return rig.last;
}

test("ConsulSource serves the stored snapshot while the agent is away, then the agent's", async () => {
  const stored = await storedSnapshot();
  const agent = new ScriptedAgent();
  await using rig = await new SourceRig(agent, { store: storeOf(stored) }).start();
  assert.equal(rig.snapshots.length, 0, "not before it is clear that the agent is away");
  agent.fail("registration", "agent_unreachable");
  await rig.settle();
  assert.equal(rig.last, stored);
  assert.equal(rig.source.status().restored, true);
  assert.equal(rig.gauge("snapshot_restored"), 1);

  agent.answer("registration", facts.registration()).answer("roots", facts.rootsOf(CA))
    .answer("leaf", facts.leafOf(CA)).answer("intentions", []).answer("default policy", "allow")
    .chain("db", facts.chain(facts.target("db"))).health("db", [facts.instance("db")]);
  await rig.settle();
  assert.equal(rig.source.status().restored, false);
  assert.equal(rig.last.policy.defaultAction, "allow");
  const { credentials, policy, tls, inbound, upstreams, targets } = diffSnapshots(stored, rig.last);
  assert.ok(credentials && policy);
  assert.deepEqual([tls, inbound, upstreams, targets], [undefined, {}, {}, {}]);
});

test("ConsulSource serves the stored snapshot when only Consul's servers are away", async () => {
  const stored = await storedSnapshot();
  const agent = new ScriptedAgent().answer("registration", facts.registration())
    .answer("leaf", facts.leafOf(CA)).answer("roots", facts.rootsOf(CA));
  await using rig = await new SourceRig(agent, { store: storeOf(stored) }).start();
  agent.fail("intentions", "agent_failed", "No known Consul servers");
  await rig.settle();
  assert.deepEqual(rig.last.policy, stored.policy);
  assert.equal(rig.last.targets[DB_TARGET]?.endpoints.length, 1);
  assert.equal(rig.source.status().restored, true, "intentions are those of the store");
});

for (
  const [name, key, code] of [
    ["its registration is gone", "registration", "agent_not_found"],
    ["its token is refused", "registration", "agent_forbidden"],
    ["it may not have the leaf", "leaf", "agent_forbidden"],
  ] as const
) {
  test(`ConsulSource does not serve the stored snapshot when ${name}`, async () => {
    const stored = await storedSnapshot();
    const agent = new ScriptedAgent();
    if (key !== "registration") agent.answer("registration", facts.registration());
    await using rig = await new SourceRig(agent, { store: storeOf(stored) }).start();
    agent.fail(key, code);
    await rig.clock.advance(20_000);
    assert.equal(rig.snapshots.length, 0);
  });
}

test("ConsulSource serves the stored snapshot when the agent does not answer at all", async () => {
  const stored = await storedSnapshot();
  await using rig = await new SourceRig(new ScriptedAgent(), { store: storeOf(stored) })
    .start();
  await rig.clock.advance(4_900);
  assert.equal(rig.snapshots.length, 0);
  await rig.clock.advance(200);
  assert.equal(rig.last, stored);
});

test("ConsulSource stores a snapshot when it is in force, and none that was refused", async () => {
  const store = new MemoryStateStore();
  const agent = answeringAgent();
  await using rig = new SourceRig(agent, { store });
  const decided = Promise.withResolvers<boolean>();
  rig.takes = () => decided.promise;
  await rig.start();
  assert.deepEqual([rig.snapshots.length, store.saves], [1, 0], "nobody has decided");
  decided.resolve(true);
  await rig.settle();
  const inForce = rig.last;
  assert.equal(store.saved?.snapshot, inForce);

  rig.takes = () => Promise.resolve(false);
  agent.answer("default policy", "allow");
  await rig.settle();
  assert.notEqual(rig.last, inForce);
  assert.equal(store.saved?.snapshot, inForce);

  rig.takes = () => Promise.resolve(true);
  agent.answer("default policy", "deny");
  await rig.settle();
  assert.deepEqual([store.saved?.snapshot, store.saves], [rig.last, 2]);
});
