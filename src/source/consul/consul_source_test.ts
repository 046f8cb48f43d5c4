import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { ScriptedAgent } from "../../../test/kit/consul/scripted_agent_watches.ts";
import {
  answeringAgent,
  CA,
  MemoryStateStore,
  SourceRig,
} from "../../../test/kit/consul/snapshot_source.ts";
import { diffSnapshots, targetKeysOf } from "../../snapshot/mod.ts";
import { registrationOfFlags, type StoredState } from "../mod.ts";

const DB = "service:default/default/db";
const DB_TARGET = `${DB}#db.default.default.dc1`;
const CACHE = "service:default/default/cache";
const cache = facts.declaration("cache", { bind: { kind: "tcp", host: "127.0.0.1", port: 9192 } });

/** Keys of the parts that changed between the last two snapshots. */
function changedParts(rig: SourceRig): string[] {
  const update = diffSnapshots(rig.snapshots.at(-2), rig.last);
  const keys = ["credentials", "policy", "tls"].filter((key) => key in update);
  const { inbound, upstreams, chains, targets } = update;
  return [...keys, ...[inbound, upstreams, chains, targets].flatMap((kind) => Object.keys(kind))];
}

test("ConsulSource publishes one snapshot from one burst of answers", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  assert.equal(rig.snapshots.length, 1);
  assert.deepEqual(rig.last.targets[DB_TARGET]?.endpoints, [
    { id: "dc1/n1/db-1-sidecar-proxy", host: "127.0.0.1", port: 21_001, weight: 1 },
  ]);
  assert.deepEqual(rig.source.status().waitingFor, []);
  assert.equal(rig.gauge("snapshots_published_total"), 1);
});

test("ConsulSource reports the parts that the first snapshot waits for", async () => {
  await using rig = await new SourceRig(answeringAgent(), {
    registration: { kind: "agent", proxyId: "x" },
  }).start();
  assert.equal(rig.snapshots.length, 1);
  const agent = new ScriptedAgent().answer("registration", facts.registration());
  await using bare = await new SourceRig(agent).start();
  assert.deepEqual(bare.source.status().waitingFor, ["roots", "leaf", "intentions"]);
  await bare.clock.advance(60_000);
  assert.equal(bare.snapshots.length, 0, "nothing is served without identity and policy");
});

test("ConsulSource refuses transparent mode at the start", async () => {
  const agent = answeringAgent().answer(
    "registration",
    facts.registration({ mode: "transparent" }),
  );
  await using rig = await new SourceRig(agent).start();
  assert.equal(rig.fatal[0]?.code, "unsupported");
  assert.match(rig.fatal[0]?.message ?? "", /"web-1-sidecar-proxy": Mode "transparent"/);
  assert.equal(rig.snapshots.length, 0);
});

test("ConsulSource keeps the registration that a transparent one would replace", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.answer("registration", facts.registration({ mode: "transparent", upstreams: [] }));
  await rig.settle();
  assert.ok(rig.last.upstreams[DB], "upstream went");
  assert.equal(rig.source.refused[0]?.what, "registration");
  assert.deepEqual(rig.fatal, []);
  rig.agent.answer("registration", facts.registration({ upstreams: [] }));
  await rig.settle();
  assert.deepEqual(rig.source.refused, []);
  assert.deepEqual(rig.last.upstreams, {});
});

for (
  const [name, change, want] of [
    ["intentions", (rig) => {
      const source = { name: "shop", namespace: "default", partition: "default", peer: "" };
      rig.agent.answer("intentions", [{ rule: "r", source, action: "allow", precedence: 9 }]);
    }, ["policy"]],
    ["the default policy", (rig) => rig.agent.answer("default policy", "allow"), ["policy"]],
    ["the leaf", (rig) => rig.agent.answer("leaf", facts.leafOf(CA)), ["credentials"]],
    ["mesh entry", (rig) => {
      const direction = { minVersion: "TLSv1_3", maxVersion: "", cipherSuites: [] };
      rig.agent.answer("mesh entry", { tls: { incoming: direction, outgoing: direction } });
    }, ["tls"]],
    ["the local port", (rig) => {
      const local = { kind: "tcp", host: "127.0.0.1", port: 8081 } as const;
      rig.agent.answer("registration", facts.registration({ local }));
    }, ["inbound"]],
    ["an upstream's port", (rig) => {
      const bind = { kind: "tcp", host: "127.0.0.1", port: 9999 } as const;
      const upstreams = [facts.declaration("db", { bind })];
      rig.agent.answer("registration", facts.registration({ upstreams }));
    }, [DB]],
    ["an upstream's limit", (rig) => {
      const upstreams = [facts.declaration("db", { maxConnections: 7 })];
      rig.agent.answer("registration", facts.registration({ upstreams }));
    }, [DB]],
    ["instances", (rig) => {
      rig.agent.health("db", [facts.instance("db", { port: 21_009 })]);
    }, [DB_TARGET]],
    ["the chain's timeout", (rig) => {
      rig.agent.chain("db", facts.chain(facts.target("db", { connectTimeoutMs: 99 })));
    }, [DB_TARGET]],
    ["a removed upstream", (rig) => {
      rig.agent.answer("registration", facts.registration({ upstreams: [] }));
    }, [DB, DB, DB_TARGET]],
  ] as const satisfies readonly (readonly [string, (rig: SourceRig) => void, readonly string[]])[]
) {
  test(`ConsulSource changes only its own parts for ${name}`, async () => {
    await using rig = await new SourceRig(answeringAgent()).start();
    change(rig);
    await rig.settle();
    assert.equal(rig.snapshots.length, 2);
    assert.deepEqual(changedParts(rig), want);
  });
}

test("ConsulSource publishes nothing when answers repeat themselves", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.answer("registration", facts.registration())
    .answer("intentions", [])
    .health("db", [facts.instance("db")])
    .chain("db", facts.chain(facts.target("db")));
  await rig.settle();
  assert.equal(rig.snapshots.length, 1);
});

test("ConsulSource adds an upstream with its data and leaves the others alone", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const upstreams = [facts.declaration("db"), cache];
  rig.agent.answer("registration", facts.registration({ upstreams }));
  await rig.settle();
  assert.equal(rig.snapshots.length, 1, "an upstream without data is not published at once");
  assert.deepEqual(rig.source.status().pending, [CACHE]);
  rig.agent.chain("cache", facts.chain(facts.target("cache"))).health("cache", []);
  await rig.settle();
  assert.deepEqual(changedParts(rig), [CACHE, CACHE, `${CACHE}#cache.default.default.dc1`]);
});

test("ConsulSource binds an upstream whose data does not come, after a while", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const upstreams = [facts.declaration("db"), cache];
  rig.agent.answer("registration", facts.registration({ upstreams }));
  await rig.clock.advance(4_900);
  assert.equal(rig.snapshots.length, 1);
  await rig.clock.advance(200);
  assert.deepEqual(targetKeysOf(rig.last.chains[CACHE]), []);
  assert.deepEqual(rig.source.status().pending, [CACHE]);
});

test("ConsulSource does not let a silent upstream hold up the first snapshot for long", async () => {
  const agent = answeringAgent();
  agent.answer(
    "registration",
    facts.registration({ upstreams: [facts.declaration("db"), cache] }),
  );
  await using rig = await new SourceRig(agent).start();
  assert.equal(rig.snapshots.length, 0);
  assert.deepEqual(rig.source.status().waitingFor, [`upstream ${CACHE}`]);
  await rig.clock.advance(5_000);
  assert.equal(rig.snapshots.length, 1);
  assert.deepEqual(rig.last.targets[DB_TARGET]?.endpoints.length, 1);
  assert.deepEqual(targetKeysOf(rig.last.chains[CACHE]), []);
});

test("ConsulSource denies until it has read the default policy", async () => {
  const agent = new ScriptedAgent()
    .answer("registration", facts.registration({ upstreams: [] }))
    .answer("leaf", facts.leafOf(CA))
    .answer("roots", facts.rootsOf(CA))
    .answer("intentions", [])
    .answer("mesh entry", null);
  await using rig = await new SourceRig(agent).start();
  assert.deepEqual(rig.source.status().waitingFor, ["default policy"]);
  await rig.clock.advance(5_000);
  assert.equal(rig.last.policy.defaultAction, "deny");
});

test("ConsulSource always has endpoints while it moves to a redirect's target", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.chain("db", facts.chain(facts.target("db2")));
  await rig.settle();
  assert.equal(rig.snapshots.length, 1, "the old target stays until the new one is known");
  assert.ok(rig.agent.running.includes("health db2"));
  rig.agent.health("db2", [facts.instance("db2")]);
  await rig.settle();
  assert.deepEqual(targetKeysOf(rig.last.chains[DB]), [`${DB}#db2.default.default.dc1`]);
  assert.ok(!rig.agent.running.includes("health db"), "nobody needs the old target any more");
});

test("ConsulSource moves without a gap although a failover target never answers", async () => {
  const far = facts.target("db", { datacenter: "dc2" });
  const agent = answeringAgent().chain("db", facts.chain(facts.target("db"), far));
  await using rig = await new SourceRig(agent).start();
  assert.equal(rig.snapshots.length, 0);
  await rig.clock.advance(5_000);
  assert.equal(rig.last.targets[DB_TARGET]?.endpoints.length, 1);
  agent.health("db", [facts.instance("db", { port: 7 })]);
  await rig.settle();
  assert.equal(rig.last.targets[DB_TARGET]?.endpoints[0]?.port, 7);
  agent.chain("db", facts.chain(facts.target("db2"), far));
  await rig.settle();
  assert.equal(rig.last.targets[DB_TARGET]?.endpoints.length, 1, "the new target is awaited");
  agent.health("db2", [facts.instance("db2")]);
  await rig.settle();
  assert.deepEqual(targetKeysOf(rig.last.chains[DB])[0], `${DB}#db2.default.default.dc1`);
});

test("ConsulSource reports an unreachable datacenter until it is reachable again", async () => {
  const far = facts.target("db", { datacenter: "dc2" });
  const farKey = `${DB}#db.default.default.dc2`;
  const down = "Cannot read: the agent answered 500: No path to datacenter";
  const agent = answeringAgent().chain("db", facts.chain(far));
  await using rig = await new SourceRig(agent).start();
  agent.fail("health db@dc2", "agent_failed", down);
  await rig.clock.advance(5_000);
  const lack = () => rig.last.targets[farKey]?.lack;
  assert.equal(lack(), `who there is of "db" in dc2 cannot be known: ${down}`);
  agent.health("db@dc2", []);
  await rig.settle();
  assert.equal(lack(), 'nobody is registered as "db" in dc2');
  agent.fail("health db@dc2", "agent_failed", down);
  await rig.settle();
  assert.equal(lack(), `nobody is registered as "db" in dc2, as far as is known: ${down}`);
});

test("ConsulSource keeps the last chain when the next one cannot be served", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const gateway = facts.target("db", { datacenter: "dc2", meshGatewayMode: "local" });
  rig.agent.chain("db", facts.chain(gateway));
  await rig.settle();
  assert.deepEqual(targetKeysOf(rig.last.chains[DB]), [DB_TARGET]);
  assert.match(rig.source.refused[0]?.reason ?? "", /mesh gateway.*last usable chain stays/);
  rig.agent.chain("db", facts.chain(facts.target("db")));
  await rig.settle();
  assert.deepEqual(rig.source.refused, []);
});

for (
  const [name, overrides, chain, reason] of [
    ["a peer", { peer: "east" }, undefined, /cluster peer "east"/],
    ["another namespace", { namespace: "team" }, undefined, /namespace is "team"/],
    ["another partition", { partition: "p" }, undefined, /partition is "p"/],
    [
      "a peer in its chain",
      {},
      facts.target("db", { peer: "east", datacenter: "" }),
      /cluster peer "east"/,
    ],
    ["a target outside the mesh", {}, facts.target("db", { external: true }), /outside the mesh/],
    [
      "a mesh gateway",
      {},
      facts.target("db", { datacenter: "dc2", meshGatewayMode: "remote" }),
      /mesh gateway mode "remote"/,
    ],
    [
      "a mesh gateway for failover only",
      {},
      [facts.target("db"), facts.target("db", { datacenter: "dc2", meshGatewayMode: "local" })],
      /mesh gateway mode "local"/,
    ],
  ] as const
) {
  test(`ConsulSource refuses an upstream with ${name}, whole, and serves the rest`, async () => {
    const upstreams = [facts.declaration("db", overrides), cache];
    const agent = answeringAgent().answer("registration", facts.registration({ upstreams }))
      .chain("cache", facts.chain(facts.target("cache"))).health("cache", []);
    if (chain) agent.chain("db", facts.chain(...[chain].flat()));
    await using rig = await new SourceRig(agent).start();
    assert.deepEqual(Object.keys(rig.last.upstreams), [CACHE]);
    assert.equal(rig.source.refused[0]?.what, `upstream ${DB}`);
    assert.match(rig.source.refused[0]?.reason ?? "", reason);
    assert.deepEqual(rig.warnings(), ["configuration refused"]);
  });
}

test("ConsulSource ignores the gateway mode of a target that is near", async () => {
  const agent = answeringAgent()
    .chain("db", facts.chain(facts.target("db", { meshGatewayMode: "local" })));
  await using rig = await new SourceRig(agent).start();
  assert.deepEqual(rig.source.refused, []);
  assert.ok(rig.last.upstreams[DB]);
});

test("ConsulSource keeps the last resort of an emptied list, for a while", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.health("db", []);
  await rig.settle();
  assert.deepEqual(rig.last.targets[DB_TARGET]?.endpoints, []);
  assert.equal(rig.last.targets[DB_TARGET]?.lastResort.length, 1);
  rig.agent.answer("intentions", []).health("db", []);
  await rig.clock.advance(299_000);
  assert.equal(rig.last.targets[DB_TARGET]?.lastResort.length, 1);
  await rig.clock.advance(2_000);
  assert.deepEqual(rig.last.targets[DB_TARGET]?.lastResort, []);
});

test("ConsulSource forgets the last resort when the list comes back", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.health("db", []);
  await rig.settle();
  const other = { serviceId: "db-2", health: "critical" } as const;
  rig.agent.health("db", [facts.instance("db", other)]);
  await rig.settle();
  const lastResort = rig.last.targets[DB_TARGET]?.lastResort.map(({ id }) => id);
  assert.deepEqual(lastResort, ["dc1/n1/db-2"]);
  rig.agent.health("db", [facts.instance("db")]);
  await rig.settle();
  assert.equal(rig.last.targets[DB_TARGET]?.endpoints.length, 1);
});

test("ConsulSource logs no recovery of a watch that fails for another reason now", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  rig.agent.fail("registration", "agent_failed", "the agent is stopping");
  await rig.clock.advance(1_000);
  rig.agent.fail("registration", "agent_unreachable", "connection refused");
  await rig.clock.advance(5_000);
  const recoveries = () => rig.lines.filter(({ message }) => / (recovered|again)$/.test(message));
  assert.deepEqual(recoveries().map(({ message }) => message), []);
  rig.agent.heal("registration");
  await rig.clock.advance(1_000);
  assert.deepEqual(recoveries().map(({ message }) => message), ["agent reached again"]);
});

test("ConsulSource keeps serving and logs once when its registration is gone", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  for (let retry = 0; retry < 3; retry++) {
    rig.agent.fail("registration", "agent_not_found", "unknown service ID");
    await rig.clock.advance(5_000);
  }
  assert.equal(rig.snapshots.length, 1);
  assert.deepEqual(rig.warnings(), ["agent watch failing, last good state stays"]);
  assert.equal(rig.gauge("snapshot_stale", { reason: "agent_not_found" }), 1);
  assert.equal(rig.source.status().failing[0]?.message, "unknown service ID");
  rig.agent.heal("registration");
  await rig.clock.advance(1_000);
  assert.equal(rig.gauge("snapshot_stale", { reason: "agent_not_found" }), 0);
  assert.equal(rig.lines.at(-1)?.message, "agent watch recovered");
  assert.deepEqual(rig.source.status().failing, []);
});

test("ConsulSource logs a missing right once for each watch", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  for (const key of ["leaf", "intentions"]) rig.agent.fail(key, "agent_forbidden");
  assert.equal(rig.warnings().length, 2);
  assert.equal(rig.gauge("snapshot_stale", { reason: "agent_forbidden" }), 2);
});

test("ConsulSource without an agent names Consul in its log lines", async () => {
  const agent = answeringAgent();
  agent.called = "consul";
  await using rig = await new SourceRig(agent).start();
  for (const key of ["roots", "leaf"]) agent.fail(key, "agent_unreachable");
  agent.fail("intentions", "agent_forbidden");
  await rig.settle();
  assert.deepEqual(rig.warnings(), [
    "consul not reached, last good state stays",
    "consul watch failing, last good state stays",
  ]);
  assert.equal(rig.source.status().failing[0]?.watch, "consul");
});

test("ConsulSource logs the loss of its agent once, and once that all watches work again", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const lost = ["registration", "roots", "leaf"];
  for (const key of lost) {
    rig.agent.fail(key, "agent_unreachable", "Cannot reach the agent");
    await rig.clock.advance(500);
  }
  assert.deepEqual(rig.warnings(), ["agent not reached, last good state stays"]);
  assert.equal(rig.gauge("snapshot_stale", { reason: "agent_unreachable" }), 3);
  const [failing, ...others] = rig.source.status().failing;
  assert.deepEqual(others, []);
  assert.deepEqual([failing?.watch, failing?.message], ["agent", "Cannot reach the agent"]);
  rig.agent.heal("registration");
  rig.agent.fail("roots", "agent_failed", "No cluster leader");
  await rig.clock.advance(1_000);
  const codes = () => rig.source.status().failing.map(({ watch, code }) => `${watch} ${code}`);
  assert.deepEqual(codes(), ["roots agent_failed", "leaf agent_unreachable"]);
  for (const key of lost) rig.agent.heal(key);
  await rig.clock.advance(1_000);
  const back = rig.lines.filter(({ message }) => message === "agent reached again");
  assert.deepEqual(back.map(({ fields }) => fields), [{ after_ms: 3_000 }]);
  assert.deepEqual(rig.source.status().failing, []);
  const events = rig.events.filter(({ text }) => /^agent (?:not )?reached/.test(text));
  assert.deepEqual(events.map(({ text, severity }) => `${severity} ${text}`), [
    "warn agent not reached, last good state stays: Cannot reach the agent",
    "info agent reached again after 3s",
  ]);
});

test("ConsulSource logs no last good state where there is none", async () => {
  await using rig = await new SourceRig(new ScriptedAgent()).start();
  rig.agent.fail("registration", "agent_forbidden");
  rig.agent.fail("roots", "agent_unreachable");
  assert.deepEqual(rig.warnings(), [
    "agent watch failing, nothing can be served yet",
    "agent not reached, nothing can be served yet",
  ]);
});

test("ConsulSource logs no failing watch before it has looked for a stored state", async () => {
  const first = await new SourceRig(answeringAgent()).start();
  const store = new MemoryStateStore({ snapshot: first.last });
  await first[Symbol.asyncDispose]();
  const read = Promise.withResolvers<StoredState | undefined>();
  const slow = Object.assign(store, { load: () => read.promise });
  await using rig = await new SourceRig(new ScriptedAgent(), { store: slow }).start();
  for (const key of ["registration", "roots"]) rig.agent.fail(key, "agent_unreachable");
  await rig.clock.advance(0);
  assert.deepEqual(rig.warnings(), []);
  read.resolve(store.saved);
  await rig.settle();
  assert.deepEqual(rig.warnings(), [
    "agent is away, stored snapshot in use",
    "agent not reached, last good state stays",
  ]);
});

test("ConsulSource stops all of its watches", async () => {
  const rig = await new SourceRig(answeringAgent()).start();
  assert.ok(rig.agent.running.length > 0);
  await rig.source.close();
  assert.deepEqual(rig.agent.running, []);
  assert.equal(rig.clock.pending, 0);
});

test("ConsulSource forgets leaf and intentions of another service", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const agent = rig.agent;
  agent.answer("registration", facts.registration({ service: "shop" }));
  await rig.settle();
  assert.equal(rig.last.service, "web", "the scripted leaf is still that of web");
  assert.match(rig.source.refused[0]?.reason ?? "", /leaf is for service "web", not "shop"/);
  agent.answer("leaf", facts.leafOf(CA, "shop"));
  await rig.settle();
  assert.equal(rig.last.service, "shop");
});

test("ConsulSource runs on flags alone", async () => {
  const registration = registrationOfFlags({
    proxyId: "web-proxy",
    service: "web",
    serviceAddress: { kind: "tcp", host: "127.0.0.1", port: 8080 },
    listen: { host: "127.0.0.1", port: 20_000 },
    upstreams: [
      { name: "db", type: "service", host: "127.0.0.1", port: 9191 },
      { name: "geo", type: "prepared_query", host: "127.0.0.1", port: 9192 },
    ],
  });
  const agent = answeringAgent().chain("db as tcp", facts.chain(facts.target("db"))).query("geo", {
    service: "db",
    datacenter: "dc2",
    instances: [facts.instance("db", { datacenter: "dc2" })],
  });
  await using rig = await new SourceRig(agent, { registration: { kind: "static", registration } })
    .start();
  assert.ok(!agent.running.includes("registration"));
  assert.equal(rig.last.proxyId, "web-proxy");
  assert.equal(rig.last.datacenter, "dc1", "read from the leaf");
  const target = rig.last.targets["prepared_query:default/default/geo#query"];
  assert.equal(target?.sni, `geo.default.dc1.query.${facts.TRUST_DOMAIN}`);
  assert.deepEqual(target?.spiffeUris, [
    `spiffe://${facts.TRUST_DOMAIN}/ns/default/dc/dc2/svc/db`,
  ]);
  assert.deepEqual(target?.endpoints.map(({ host, port }) => `${host}:${port}`), [
    "198.51.100.1:31001",
  ], "another datacenter is dialled at its WAN address");
  agent.query("geo", { service: "db", datacenter: "dc2", instances: [] });
  await rig.settle();
  const emptied = rig.last.targets["prepared_query:default/default/geo#query"];
  assert.equal(emptied?.lastResort.length, 1);
  assert.deepEqual(emptied?.spiffeUris, target?.spiffeUris, "a last resort still has an identity");
});

test("ConsulSource logs that the agent's leaf was replaced", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const rotated = () => rig.lines.filter(({ message }) => message === "certificate rotated");
  rig.agent.answer("leaf", facts.leafOf(CA));
  await rig.settle();
  assert.deepEqual(rotated().map(({ fields }) => fields.secret), ["leaf"]);
});

test("ConsulSource warns of a leaf that the agent has not renewed in time", async () => {
  await using rig = await new SourceRig(answeringAgent()).start();
  const { notBeforeMs = 0, notAfterMs = 0 } = rig.last.credentials ?? {};
  const warned = () => rig.lines.filter(({ message }) => message.includes("expires soon"));
  const warnMs = notAfterMs - (notAfterMs - notBeforeMs) / 12;
  await rig.clock.advance(warnMs - rig.clock.now() - 1_000);
  assert.deepEqual(warned(), []);
  assert.equal(rig.gauge("certificates_near_expiry", { source: "consul" }), 0);
  await rig.clock.advance(2_000);
  assert.equal(warned()[0]?.fields.secret, "leaf");
  assert.equal(rig.gauge("certificates_near_expiry", { source: "consul" }), 1);
});
