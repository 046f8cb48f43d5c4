import assert from "node:assert/strict";
import { test } from "node:test";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import type { Instance, Leaf, Registration, Roots } from "../../consul/mod.ts";
import { assemble, type Assembled, type AssembleOptions, NO_MEMORY } from "./assemble.ts";
import { judgeCredentials } from "../parts/judge_credentials.ts";
import type { ConsulState } from "./consul_state.ts";
import { healthKey, planChain } from "./plan.ts";
import type { Snapshot, TargetPart } from "../../snapshot/mod.ts";

const CA = facts.authority();
const OTHER_CA = facts.authority();
const DB = "service:default/default/db";
const OPTIONS: AssembleOptions = {
  proxyId: "web-1-sidecar-proxy",
  authorize: "match",
  strictSpiffeChain: false,
  judge: judgeCredentials,
  nowMs: facts.NOW_MS,
  monotonicMs: 0,
  graceMs: 5_000,
  lastResortMs: 300_000,
  idleTimeoutMs: 3_600_000,
  lifetimeMs: 0,
};

function knownWith(
  overrides: Partial<ConsulState> = {},
  registered: Partial<Registration> = {},
): ConsulState {
  return {
    registration: facts.registration({ upstreams: [], ...registered }),
    leaf: facts.leafOf(CA),
    roots: facts.rootsOf(CA),
    intentions: [],
    defaultAction: "deny",
    mesh: null,
    proxyDefaults: null,
    serviceDefaults: null,
    jwtProviders: new Map(),
    plans: new Map(),
    instances: new Map(),
    queries: new Map(),
    unheard: new Map(),
    refused: [],
    ...overrides,
  };
}

/** Everything for one upstream `db`, resolved to `instances`. */
function knownWithDb(instances: readonly Instance[], target = facts.target("db")): ConsulState {
  const declaration = facts.declaration("db");
  const registration = facts.registration({ upstreams: [declaration] });
  const plan = planChain(declaration, facts.chain(target), registration);
  assert.equal(plan.kind, "targets");
  if (plan.kind !== "targets") throw new Error("unreachable");
  return knownWith({
    plans: new Map([[DB, plan]]),
    instances: new Map(plan.targets.map(({ health }) => [healthKey(health), instances])),
  }, { upstreams: [declaration] });
}

function ready(assembled: Assembled): Snapshot {
  assert.equal(assembled.outcome.kind, "ready");
  if (assembled.outcome.kind !== "ready") throw new Error("unreachable");
  return assembled.outcome.snapshot;
}

function dbTarget(snapshot: Snapshot): TargetPart {
  const target = Object.values(snapshot.targets)[0];
  if (!target) throw new Error("no target");
  return target;
}

for (const [protocol, want] of [["tcp", undefined], ["http", "http"], ["grpc", "grpc"]] as const) {
  test(`assemble() opens the public listener of a ${protocol} service for what it speaks`, () => {
    const { inbound } = ready(assemble(knownWith({}, { protocol }), NO_MEMORY, OPTIONS));
    assert.equal(inbound["inbound"]?.http?.protocol, want);
  });
}

test("assemble() takes intentions that deny everything, and names them", () => {
  const rule = "default/web => default/db (precedence 9, permissions)";
  const source = { name: "web", namespace: "default", partition: "default", peer: "" };
  const action = "permissions" as const;
  const known = knownWith({ intentions: [{ rule, source, action, precedence: 9 }] });
  const { outcome, refused } = assemble(known, NO_MEMORY, OPTIONS);
  assert.ok(outcome.kind === "ready");
  assert.equal(refused[0]?.what, "intentions with permissions");
  // A mesh without namespaces has only the default one, whatever a peer claims.
  const namespaces = outcome.snapshot.policy.intentions.map(({ source }) => source.namespace);
  assert.deepEqual(namespaces, ["default", "*"]);
});

for (
  const [name, overrides, want] of [
    ["the registration", { registration: undefined }, ["registration"]],
    ["the leaf", { leaf: undefined }, ["leaf"]],
    ["roots", { roots: undefined }, ["roots"]],
    ["intentions", { intentions: undefined }, ["intentions"]],
    ["everything", { leaf: undefined, roots: undefined, intentions: undefined }, [
      "roots",
      "leaf",
      "intentions",
    ]],
    ["a usable leaf", { leaf: facts.leafOf(OTHER_CA) }, ["valid credentials"]],
  ] as const satisfies readonly (readonly [string, Partial<ConsulState>, readonly string[]])[]
) {
  test(`assemble() waits for ${name}`, () => {
    const { outcome } = assemble(knownWith(overrides), NO_MEMORY, OPTIONS);
    assert.deepEqual(outcome, { kind: "waiting", for: want });
  });
}

const LATER_MS = facts.NOW_MS + 80 * 3_600_000;
const truncated = (leaf: Leaf): Leaf => ({ ...leaf, certPem: leaf.certPem.slice(0, 200) });
const without = (roots: Roots): Roots => ({ ...roots, roots: [] });

for (
  const [name, update, reason, options] of [
    ["a leaf of another key", {
      leaf: { ...facts.leafOf(CA), keyPem: facts.leafOf(CA).keyPem },
    }, /does not belong/],
    ["a leaf of a stranger", { leaf: facts.leafOf(OTHER_CA) }, /does not reach a root/],
    ["a leaf of another service", { leaf: facts.leafOf(CA, "shop") }, /for service "shop"/],
    ["a leaf cut short", { leaf: truncated(facts.leafOf(CA)) }, /leaf certificate/],
    ["a leaf that has expired", { leaf: facts.leafOf(CA) }, /expired/, { nowMs: LATER_MS }],
    [
      "a leaf of the future",
      { leaf: facts.leafOf(CA, "web", LATER_MS) },
      /not valid|not acceptable/,
    ],
    ["roots that do not parse", {
      roots: { ...facts.rootsOf(CA), roots: [{ ...facts.rootsOf(CA).roots[0], pem: "nonsense" }] },
    }, /root certificate/],
    ["no roots", { roots: without(facts.rootsOf(CA)) }, /no root/],
    ["roots without ours", { roots: facts.rootsOf(OTHER_CA) }, /does not reach a root/],
    ["roots of another trust domain", {
      roots: { ...facts.rootsOf(facts.authority("other.consul")), trustDomain: "other.consul" },
    }, /trust domain|not acceptable/],
  ] as const satisfies readonly (readonly [
    string,
    { leaf?: Leaf; roots?: unknown },
    RegExp,
    Partial<AssembleOptions>?,
  ])[]
) {
  test(`assemble() refuses ${name} and keeps the old credentials`, () => {
    const first = assemble(knownWith(), NO_MEMORY, OPTIONS);
    const { credentials } = ready(first);
    const known = { ...knownWith(), ...update } as ConsulState;
    const second = assemble(known, first.memory, { ...OPTIONS, ...options });
    assert.equal(ready(second).credentials, credentials);
    assert.equal(second.refused[0]?.what, "credentials");
    assert.match(second.refused[0]?.reason ?? "", reason);
    assert.notEqual(second.dueMs, undefined, "it is judged again");
    // A private key or certificate must not get into a message.
    assert.doesNotMatch(second.refused[0]?.reason ?? "", /BEGIN|[A-Za-z0-9+/]{60}/);
  });
}

test("assemble() takes a new CA once both of its halves are there", () => {
  const first = assemble(knownWith(), NO_MEMORY, OPTIONS);
  const both = facts.rootsOf(CA, OTHER_CA);
  const second = assemble(
    { ...knownWith(), leaf: facts.leafOf(CA), roots: both },
    first.memory,
    OPTIONS,
  );
  assert.equal(ready(second).credentials?.rootPems.length, 2);
  const leaf = facts.leafOf(OTHER_CA);
  const third = assemble(
    { ...knownWith(), leaf, roots: facts.rootsOf(OTHER_CA) },
    second.memory,
    OPTIONS,
  );
  assert.deepEqual(ready(third).credentials?.rootPems.length, 1);
  assert.deepEqual(third.refused, []);
});

test("assemble() ignores the order of roots", () => {
  const leaf = facts.leafOf(CA);
  const first = assemble(
    { ...knownWith(), leaf, roots: facts.rootsOf(CA, OTHER_CA) },
    NO_MEMORY,
    OPTIONS,
  );
  const second = assemble(
    { ...knownWith(), leaf, roots: facts.rootsOf(OTHER_CA, CA) },
    first.memory,
    OPTIONS,
  );
  assert.equal(ready(second), ready(first));
});

test("assemble() keeps the old TLS settings when the mesh entry's cannot be used", () => {
  const direction = { minVersion: "TLSv1_3", maxVersion: "", cipherSuites: [] };
  const first = assemble(
    knownWith({ mesh: { tls: { incoming: direction, outgoing: direction } } }),
    NO_MEMORY,
    OPTIONS,
  );
  assert.equal(ready(first).tls.incoming.minVersion, "TLSv1.3");
  const bad = { ...direction, cipherSuites: ["TLS_FOO"] };
  const second = assemble(
    knownWith({ mesh: { tls: { incoming: bad, outgoing: direction } } }),
    first.memory,
    OPTIONS,
  );
  assert.equal(ready(second).tls, ready(first).tls);
  assert.match(second.refused[0]?.reason ?? "", /TLS_FOO/);
});

test("assemble() has no public listener on port 0", () => {
  const bind = { kind: "tcp", host: "", port: 0 } as const;
  assert.deepEqual(ready(assemble(knownWith({}, { bind }), NO_MEMORY, OPTIONS)).inbound, {});
});

test("assemble() keeps the public listener closed until its plugins can be used, then them", () => {
  const bad = { used: undefined, refused: [{ what: "plugins", reason: "no such file" }] };
  const closed = assemble(knownWith(), NO_MEMORY, {
    ...OPTIONS,
    plugins: new Map([["inbound", bad]]),
  });
  assert.deepEqual(ready(closed).inbound, {});
  assert.deepEqual(closed.warming, ["inbound: plugins that can be used: no such file"]);
  const use = {
    plugin: "/a.ts",
    file: { code: "k", digest: "d1", allow: [] },
    config: {},
    onFailure: "refuse" as const,
    at: "postern_plugins[0]",
  };
  const used = { uses: [use], code: { k: { text: "", path: "/a.ts", map: "", libraries: [] } } };
  const opened = assemble(knownWith(), closed.memory, {
    ...OPTIONS,
    plugins: new Map([["inbound", { used, refused: [] }]]),
  });
  assert.deepEqual(ready(opened).inbound["inbound"]?.plugins, [use]);
  // As after a restart.
  const kept = assemble(knownWith(), opened.memory, {
    ...OPTIONS,
    plugins: new Map([["inbound", bad]]),
  });
  const { inbound, pluginCode } = ready(opened);
  assert.equal(ready(kept).inbound["inbound"], inbound["inbound"]);
  assert.equal(ready(kept).pluginCode["k"], pluginCode["k"]);
  assert.deepEqual(kept.refused, bad.refused);
});

for (
  const [name, overrides, want] of [
    ["passing", {}, [1]],
    ["its weight when passing", { weights: { passing: 7, warning: 3 } }, [7]],
    ["its weight when warning", { health: "warning", weights: { passing: 7, warning: 3 } }, [3]],
    ["at most 128", { weights: { passing: 1_000, warning: 1 } }, [128]],
    ["nothing at weight 0", { weights: { passing: 0, warning: 1 } }, []],
    ["nothing when critical", { health: "critical" }, []],
    ["nothing without a port", { port: 0 }, []],
    ["nothing without a host", { host: "" }, []],
  ] as const satisfies readonly (readonly [string, Partial<Instance>, readonly number[]])[]
) {
  test(`assemble() makes of an instance ${name}`, () => {
    const known = knownWithDb([facts.instance("db", overrides)]);
    const { endpoints } = dbTarget(ready(assemble(known, NO_MEMORY, OPTIONS)));
    assert.deepEqual(endpoints.map(({ weight }) => weight), want);
  });
}

for (
  const [name, overrides, want] of [
    ["fails its checks", { health: "critical" }, ["dc1/n1/db-2"]],
    ["only warns where passing ones are wanted", { health: "warning" }, ["dc1/n1/db-2"]],
    ["is in maintenance mode", { health: "critical", maintenance: "set on its node" }, []],
    [
      "has no weight",
      { health: "critical", weights: { passing: 0, warning: 0 } },
      [],
    ],
    ["passes", {}, []],
  ] as const satisfies readonly (readonly [string, Partial<Instance>, readonly string[]])[]
) {
  test(`assemble() ${want.length > 0 ? "uses as last resort" : "never uses as last resort"} an instance that ${name}`, () => {
    const other = facts.instance("db", { serviceId: "db-2", ...overrides });
    const target = facts.target("db", { onlyPassing: true });
    for (const instances of [[other], [facts.instance("db"), other]]) {
      const known = knownWithDb(instances, target);
      const { lastResort } = dbTarget(ready(assemble(known, NO_MEMORY, OPTIONS)));
      assert.deepEqual(lastResort.map(({ id }) => id), want);
    }
  });
}

for (
  const [name, instances, lack] of [
    ["somebody passes", [facts.instance("db")], ""],
    ["nobody is registered", [], 'nobody is registered as "db" in dc1'],
    [
      "all fail",
      [
        facts.instance("db", { health: "critical" }),
        facts.instance("db", { serviceId: "db-2", health: "critical" }),
      ],
      'all 2 instances of "db" in dc1 fail their checks',
    ],
  ] as const
) {
  test(`assemble() reports why there is no endpoint where ${name}`, () => {
    const snapshot = ready(assemble(knownWithDb(instances), NO_MEMORY, OPTIONS));
    assert.equal(dbTarget(snapshot).lack, lack);
  });
}

test("assemble() leaves warning instances out of a subset that wants passing ones", () => {
  const instances = [
    facts.instance("db", { health: "warning" }),
    facts.instance("db", { serviceId: "db-2" }),
  ];
  const known = knownWithDb(instances, facts.target("db", { onlyPassing: true }));
  const { endpoints } = dbTarget(ready(assemble(known, NO_MEMORY, OPTIONS)));
  assert.deepEqual(endpoints.map(({ id }) => id), ["dc1/n1/db-2"]);
});

test("assemble() dials another datacenter at WAN addresses and wants its identity there", () => {
  const known = knownWithDb(
    [facts.instance("db", { datacenter: "dc2" })],
    facts.target("db", {
      datacenter: "dc2",
    }),
  );
  const target = dbTarget(ready(assemble(known, NO_MEMORY, OPTIONS)));
  assert.deepEqual([target.endpoints[0]?.host, target.endpoints[0]?.port], [
    "198.51.100.1",
    31_001,
  ]);
  assert.deepEqual(target.spiffeUris, [
    `spiffe://${facts.TRUST_DOMAIN}/ns/default/dc/dc2/svc/db`,
  ]);
  assert.equal(target.sni, `db.default.dc2.internal.${facts.TRUST_DOMAIN}`);
});

test("assemble() takes any trust domain in force for a server's identity", () => {
  const roots = facts.rootsOf(CA);
  const external = roots.roots.map((root) => ({ ...root, externalTrustDomain: "old.consul" }));
  const known = { ...knownWithDb([]), roots: { ...roots, roots: external } };
  const target = dbTarget(ready(assemble(known, NO_MEMORY, OPTIONS)));
  assert.deepEqual(target.spiffeUris, [
    `spiffe://${facts.TRUST_DOMAIN}/ns/default/dc/dc1/svc/db`,
    "spiffe://old.consul/ns/default/dc/dc1/svc/db",
  ]);
});

test("assemble() ignores the order of instances", () => {
  const one = facts.instance("db", { node: "a" });
  const two = facts.instance("db", { node: "b" });
  const leaf = facts.leafOf(CA);
  const first = assemble({ ...knownWithDb([one, two]), leaf }, NO_MEMORY, OPTIONS);
  const second = assemble({ ...knownWithDb([two, one]), leaf }, first.memory, OPTIONS);
  assert.equal(ready(second), ready(first));
});

test("assemble() keeps a restored last resort only for a while", () => {
  const leaf = facts.leafOf(CA);
  const full = assemble({ ...knownWithDb([facts.instance("db")]), leaf }, NO_MEMORY, OPTIONS);
  const empty = assemble({ ...knownWithDb([]), leaf }, full.memory, OPTIONS);
  assert.equal(dbTarget(ready(empty)).lastResort.length, 1);
  // A restart forgets when the list turned empty, not that it did.
  const restored = { ...NO_MEMORY, snapshot: ready(empty) };
  const again = assemble({ ...knownWithDb([]), leaf }, restored, OPTIONS);
  assert.equal(ready(again), ready(empty));
  assert.equal(again.dueMs, 300_000);
  const later = { ...OPTIONS, monotonicMs: 300_000 };
  const ended = assemble({ ...knownWithDb([]), leaf }, again.memory, later);
  assert.deepEqual(dbTarget(ready(ended)).lastResort, []);
  const much = { ...OPTIONS, monotonicMs: 900_000 };
  const stays = assemble({ ...knownWithDb([]), leaf }, ended.memory, much);
  assert.equal(ready(stays), ready(ended));
});

test("assemble() gives every changed part the version of its snapshot", () => {
  const leaf = facts.leafOf(CA);
  const first = assemble({ ...knownWithDb([facts.instance("db")]), leaf }, NO_MEMORY, OPTIONS);
  const known = { ...knownWithDb([facts.instance("db", { port: 5 })]), leaf };
  const second = ready(assemble(known, first.memory, OPTIONS));
  assert.equal(second.version, 2);
  assert.equal(dbTarget(second).version, 2);
  for (const part of [second.credentials, second.policy, second.tls, second.inbound["inbound"]]) {
    assert.equal(part?.version, 1);
  }
});

test("assemble() leaves the public listener as it was where a required extension has no plugin", () => {
  const extension = { name: "builtin/lua", required: true, arguments: {} };
  const serviceDefaults = { extensions: [extension] };
  const closed = assemble(knownWith({ serviceDefaults }), NO_MEMORY, OPTIONS);
  assert.deepEqual(ready(closed).inbound, {});
  assert.match(closed.warming[0] ?? "", /^inbound: service-defaults web: EnvoyExtensions\[0\]/);

  const before = assemble(knownWith(), NO_MEMORY, OPTIONS);
  const later = knownWith({ serviceDefaults }, { maxInboundConnections: 5 });
  const after = assemble(later, before.memory, OPTIONS);
  assert.equal(ready(after).inbound["inbound"], ready(before).inbound["inbound"]);
  assert.deepEqual(after.warming, []);
  // Intentions are about requests from now on, and on that listener there are none.
  const http = knownWith({ serviceDefaults }, { protocol: "http" });
  assert.deepEqual(ready(assemble(http, before.memory, OPTIONS)).inbound, {});
});

test("assemble() puts the limits of an entry around the public listener", () => {
  const serviceDefaults = {
    extensions: [],
    rateLimits: { requestsPerSecond: 5, burst: 0, routes: [] },
  };
  const snapshot = ready(
    assemble(knownWith({ serviceDefaults }, { protocol: "http" }), NO_MEMORY, OPTIONS),
  );
  assert.deepEqual(snapshot.inbound["inbound"]?.plugins.map(({ plugin }) => plugin), [
    "rate_limit",
  ]);
});
