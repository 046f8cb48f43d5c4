/** Snapshots from replies of a real Consul (test/fixtures/consul). */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { prepareRegexes } from "../../base/mod.ts";
import { targetKeysOf } from "../../snapshot/mod.ts";
import { ScriptedAgent } from "../../../test/kit/consul/scripted_agent_watches.ts";
import { SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import { readChain } from "../../consul/replies/discovery_chain.ts";
import { readInstances } from "../../consul/replies/instances.ts";
import { readIntentions } from "../../consul/replies/intentions.ts";
import { readLeaf } from "../../consul/replies/certificates.ts";
import { readMesh } from "../../consul/replies/mesh_and_defaults.ts";
import { readQueryResult } from "../../consul/replies/instances.ts";
import { readRegistration } from "../../consul/replies/registration.ts";
import { readRoots } from "../../consul/replies/certificates.ts";

const TRUST_DOMAIN = "9da65145-0152-e6b1-e4f0-41aa15caa324.consul";
const PROXY_ID = "web-1-sidecar-proxy";
/** When the leaves were all valid. */
const RECORDED_MS = Date.parse("2026-11-21T04:00:00Z");

function fixture(name: string): unknown {
  const file = new URL(`../../../test/fixtures/consul/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8"));
}

function agentWith(registration: string): ScriptedAgent {
  return new ScriptedAgent()
    .answer("registration", readRegistration(fixture(registration), PROXY_ID))
    .answer("leaf", readLeaf(fixture("leaf")))
    .answer("roots", readRoots(fixture("roots")))
    .answer("intentions", readIntentions(fixture("intentions_match"), "db"))
    .answer("default policy", "deny")
    .answer("mesh entry", readMesh(fixture("config_mesh")));
}

/** A rig whose clock stands where the fixtures were recorded. */
async function rigOf(agent: ScriptedAgent): Promise<SourceRig> {
  const rig = new SourceRig(agent);
  rig.clock.jump(RECORDED_MS - rig.clock.now());
  await rig.start();
  await rig.clock.advance(6_000);
  return rig;
}

test("ConsulSource serves the minimal sidecar", async () => {
  await using rig = await rigOf(agentWith("agent_service"));
  assert.equal(rig.last.service, "web");
  assert.equal(rig.last.credentials?.uri, `spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/web`);
  assert.deepEqual(rig.source.refused, []);
  assert.ok(rig.last.policy.intentions.length > 0);
});

test("ConsulSource serves or refuses each kind of merged upstream", async () => {
  const agent = agentWith("agent_service_merged")
    .query("geo-db", readQueryResult(fixture("prepared_query_execute"), "geo-db"));
  await using rig = await rigOf(agent);
  const upstreams = new Map(Object.values(rig.last.upstreams).map((part) => [part.name, part]));
  assert.deepEqual([...upstreams.keys()].sort(), ["cache", "db", "geo-db", "sock"]);
  const [db, sock, geo] = ["db", "sock", "geo-db"].map((name) => upstreams.get(name));
  assert.equal(db?.maxConnections, 9);
  assert.equal(db?.maxPending, 1_024, "null is unset");
  const { chains } = rig.last;
  const outlier = Object.values(chains[db?.chain ?? ""]?.resolvers ?? {})[0]?.outlier;
  assert.equal(outlier?.maxFailures, 3);
  assert.equal(outlier.baseEjectionMs, 20_000);
  assert.equal(sock?.maxConnections, 0, "0 is none");
  assert.deepEqual(sock?.bind, { kind: "unix", path: "/run/up.sock", mode: 0o600 });
  const target = rig.last.targets[targetKeysOf(chains[geo?.chain ?? ""])[0] ?? ""];
  assert.equal(target?.sni, `geo-db.default.dc1.query.${TRUST_DOMAIN}`);
  assert.deepEqual(target?.spiffeUris, [`spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/db`]);
  assert.deepEqual(target?.endpoints.map(({ host, port }) => [host, port]), [[
    "127.0.1.3",
    21_201,
  ]]);
  assert.equal(rig.source.refused.length, 1);
  assert.match(rig.source.refused[0]?.reason ?? "", /cluster peer "east"/);
});

test("ConsulSource dials passing, warning and native instances, never critical ones", async () => {
  const agent = agentWith("agent_service")
    .chain("db", readChain(fixture("chain_default")))
    .health("nothing", readInstances(fixture("health_connect"), "api"));
  await using rig = await rigOf(agent);
  const [target] = Object.values(rig.last.targets);
  const all = readInstances(fixture("health_connect"), "api");
  const usable = all.filter(({ health }) => health !== "critical");
  assert.ok(usable.length > 0 && usable.length < all.length);
  assert.equal(target?.endpoints.length, usable.length);
  assert.equal(target?.sni, `nothing.default.dc1.internal.${TRUST_DOMAIN}`);
});

for (
  const [name, chain, reason] of [
    ["failover through mesh gateways", "chain_rich_override_tcp", /mesh gateway mode "local"/],
    ["failover to a peer", "chain_failover_targets", /cluster peer "east"/],
    ["a target outside the mesh", "chain_external_sni", /outside the mesh/],
  ] as const
) {
  test(`ConsulSource refuses an upstream with ${name}`, async () => {
    const agent = agentWith("agent_service").chain("db", readChain(fixture(chain)));
    await using rig = await rigOf(agent);
    assert.deepEqual(rig.last.upstreams, {});
    assert.match(rig.source.refused[0]?.reason ?? "", reason);
  });
}

test("ConsulSource carries bytes of an upstream whose routes it cannot follow, and reports it", async () => {
  await prepareRegexes();
  const agent = agentWith("agent_service")
    .chain("db", readChain(fixture("chain_rich")))
    .chain("db as tcp", readChain(fixture("chain_default")));
  await using rig = await rigOf(agent);
  const [upstream] = Object.values(rig.last.upstreams);
  assert.equal(upstream?.http, null);
  assert.equal(targetKeysOf(rig.last.chains[upstream.chain]).length, 1);
  assert.match(
    rig.source.refused[0]?.reason ?? "",
    /mesh gateways are not supported yet.*: its connections are carried as they are/,
  );
  assert.equal(rig.source.refused.length, 1);
});

test("ConsulSource follows two CA rotations without a refusal", async () => {
  await using rig = await rigOf(agentWith("agent_service"));
  for (
    const [roots, leaf, count] of [
      ["roots_rotated", "leaf_before_reissue", 2],
      ["roots_rotated", "leaf_rotated", 2],
      ["roots_rsa", "leaf_rotated", 3],
      ["roots_rsa", "leaf_rsa", 3],
    ] as const
  ) {
    rig.agent.answer("roots", readRoots(fixture(roots)));
    await rig.settle();
    assert.deepEqual(rig.source.refused, [], roots);
    rig.agent.answer("leaf", readLeaf(fixture(leaf)));
    await rig.settle();
    assert.deepEqual(rig.source.refused, [], leaf);
    assert.equal(rig.last.credentials?.rootPems.length, count);
    assert.equal(rig.last.credentials?.serial, readLeaf(fixture(leaf)).serial);
  }
});

for (const suffix of ["", "_rotated"]) {
  test(`ConsulSource takes a secondary datacenter's leaf_secondary${suffix}`, async () => {
    const registration = readRegistration(fixture("agent_service"), PROXY_ID);
    const agent = agentWith("agent_service")
      .answer("registration", { ...registration, service: "db", datacenter: "dc2", upstreams: [] })
      .answer("leaf", readLeaf(fixture(`leaf_secondary${suffix}`)))
      .answer("roots", readRoots(fixture(`roots_secondary${suffix}`)));
    await using rig = await rigOf(agent);
    assert.deepEqual(rig.source.refused, []);
    assert.match(rig.last.credentials?.uri ?? "", /\/dc\/dc2\/svc\/db$/);
  });
}
