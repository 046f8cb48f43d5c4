import test from "node:test";
import assert from "node:assert/strict";
import { silentLog } from "../../base/mod.ts";
import type { ListenerView } from "../../proxy/mod.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { httpRules, snapshotOf, upstreamOf } from "../../../test/kit/engine/snapshots.ts";
import { Readiness, type ReadinessFacts, type ReadinessOptions } from "./readiness.ts";

const DB = "service:default/default/db";
const SNAPSHOT = snapshotOf({
  ca: createAuthority(),
  service: "web",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  upstreams: [{ name: "db" }],
});

const HEALTH = "exposed:21500";
const EXPOSES: Partial<ReadinessFacts> = {
  snapshot: {
    ...SNAPSHOT,
    exposed: {
      [HEALTH]: {
        version: 1,
        bind: { kind: "tcp", host: "127.0.0.1", port: 21_500 },
        path: "/health",
        local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
        localConnectTimeoutMs: 1_000,
        http: httpRules("http"),
      },
    },
  },
};

const EDGE = "ingress:8080";
const EDGED: Partial<ReadinessFacts> = {
  snapshot: {
    ...SNAPSHOT,
    inbound: {},
    upstreams: { [DB]: upstreamOf({ name: "db", bind: null }) },
    edges: {
      [EDGE]: {
        version: 1,
        id: EDGE,
        bind: { kind: "tcp", host: "127.0.0.1", port: 8080 },
        http: httpRules("http"),
        plugins: [],
        listener: null,
        hosts: [{ names: ["*"], upstream: DB }],
      },
    },
  },
};

const up = (name: string): ListenerView => ({
  name,
  direction: name === "inbound" ? "inbound" : "outbound",
  address: "127.0.0.1:1",
  protocol: "tcp",
  state: "listening",
  error: "",
  fault: "",
  warnings: [],
  connections: 0,
});
const refusing = (name: string, fault = "our own certificate expired") => ({ ...up(name), fault });
const unbound = (name: string): ListenerView => ({ ...up(name), state: "failed", error: "in use" });
const binding = (name: string): ListenerView => ({ ...up(name), state: "failed" });

interface Step {
  /** Listeners as seen by each worker that answers. */
  readonly seen: readonly (readonly ListenerView[])[];
  readonly facts?: Partial<ReadinessFacts>;
  readonly stuck?: readonly string[];
  readonly notReady?: readonly string[];
  readonly warnings?: readonly string[];
}

function rig(wanted: "any" | "all" = "all") {
  const clock = new FakeClock();
  const stopping = new AbortController();
  const changes: string[] = [];
  const world = {
    seen: [] as Step["seen"],
    stuck: [] as readonly string[],
    facts: {
      draining: false,
      snapshot: SNAPSHOT,
      refusal: undefined,
      waitingFor: "the leaf",
      warming: [],
      unheard: [],
      rival: "",
    } as ReadinessFacts,
  };
  const options: ReadinessOptions = {
    clock,
    log: silentLog,
    wanted,
    facts: () => world.facts,
    plane: () => ({
      listeners: () => Promise.resolve(world.seen),
      stuck: () => Promise.resolve(world.stuck),
    }),
    onChange: (reasons) => void changes.push(reasons.join("; ") || "ready"),
    signal: stopping.signal,
  };
  return { clock, stopping, changes, world, readiness: new Readiness(options) };
}

const EXPIRED = "refuses every connection: our own certificate expired";

const CASES: readonly (readonly [string, "any" | "all", readonly Step[]])[] = [
  ["is ready when all are up", "all", [{ seen: [[up("inbound"), up(DB)]] }]],
  ["does not count exposed paths, and warns of one that is not bound", "any", [
    {
      seen: [[up("inbound"), up(DB), unbound(HEALTH)]],
      facts: EXPOSES,
      warnings: [`listener ${HEALTH} is not bound: in use; tried again every second`],
    },
    {
      seen: [[unbound("inbound"), unbound(DB), up(HEALTH)]],
      facts: EXPOSES,
      notReady: [`listeners inbound, ${DB} are not bound: in use; tried again every second`],
    },
  ]],
  ["waits for an edge listener, but not for upstreams that only the edge uses", "all", [
    { seen: [[]], facts: EDGED, notReady: [`listener ${EDGE} is not bound yet`] },
    { seen: [[up(EDGE)]], facts: EDGED },
  ]],
  ["waits for the first snapshot", "all", [{
    seen: [],
    facts: { snapshot: undefined },
    notReady: ["waiting for the leaf"],
  }]],
  [
    "gives an unreachable agent as a reason before the first snapshot, and as a warning after it",
    "all",
    [
      {
        seen: [],
        facts: { snapshot: undefined, unheard: ["the agent not reached since then: refused"] },
        notReady: ["waiting for the leaf", "the agent not reached since then: refused"],
      },
      {
        seen: [[up("inbound"), up(DB)]],
        facts: { snapshot: SNAPSHOT },
        warnings: ["the agent not reached since then: refused"],
      },
      { seen: [[up("inbound"), up(DB)]], facts: { unheard: [] } },
    ],
  ],
  ["is not ready after an empty snapshot while the next one is refused", "all", [{
    seen: [[]],
    facts: { snapshot: { ...SNAPSHOT, inbound: {}, upstreams: {} }, refusal: "bad key" },
    notReady: ["waiting for a snapshot that can be used: bad key"],
  }]],
  ["waits at start until all listeners are bound", "all", [
    { seen: [[]], notReady: [`listeners inbound, ${DB} are not bound yet`] },
    { seen: [[up("inbound"), binding(DB)]], notReady: [`listener ${DB} is not bound yet`] },
    {
      seen: [[up("inbound"), unbound(DB)]],
      notReady: [`listener ${DB} is not bound: in use; tried again every second`],
    },
  ]],
  ["waits for warming secrets at start, and only warns of them later", "all", [
    {
      seen: [[up("inbound"), up(DB)]],
      facts: { warming: ["secrets of x (a)"] },
      notReady: ["waiting for secrets of x (a)"],
    },
    { seen: [[up("inbound"), up(DB)]], facts: { warming: [] } },
    {
      seen: [[up("inbound"), up(DB)]],
      facts: { warming: ["secrets of x (a)"] },
      warnings: ["waiting for secrets of x (a)"],
    },
  ]],
  ["is not ready when every listener refuses connections from the start", "all", [{
    seen: [[refusing("inbound"), refusing(DB)]],
    notReady: [`listeners inbound, ${DB} ${EXPIRED.replace("refuses", "refuse")}`],
  }]],
  ["does not count a listener that never was up", "all", [
    { seen: [[up("inbound"), refusing(DB)]], warnings: [`listener ${DB} ${EXPIRED}`] },
    {
      seen: [[up("inbound"), unbound(DB)]],
      warnings: [`listener ${DB} is not bound: in use; tried again every second`],
    },
  ]],
  ["names another proxy that has its ports while a listener is not bound", "all", [
    {
      facts: { rival: "another one runs" },
      seen: [[unbound("inbound"), unbound(DB)]],
      notReady: [
        `listeners inbound, ${DB} are not bound: in use; tried again every second`,
        "another one runs",
      ],
    },
    { facts: { rival: "another one runs" }, seen: [[up("inbound"), up(DB)]] },
    {
      facts: { rival: "another one runs", snapshot: EXPOSES.snapshot },
      seen: [[up("inbound"), up(DB), unbound(HEALTH)]],
      warnings: [
        `listener ${HEALTH} is not bound: in use; tried again every second`,
        "another one runs",
      ],
    },
  ]],
  ["is not ready when a listener that was up refuses connections", "all", [
    { seen: [[up("inbound"), up(DB)]] },
    { seen: [[up("inbound"), refusing(DB)]], notReady: [`listener ${DB} ${EXPIRED}`] },
    { seen: [[up("inbound"), up(DB)]] },
  ]],
  ["with any: is not ready only when no listener is up", "any", [
    {
      seen: [[up("inbound"), unbound(DB)]],
      warnings: [`listener ${DB} is not bound: in use; tried again every second`],
    },
    { seen: [[refusing("inbound"), up(DB)]], warnings: [`listener inbound ${EXPIRED}`] },
    {
      seen: [[refusing("inbound"), unbound(DB)]],
      notReady: [
        `listener inbound ${EXPIRED}`,
        `listener ${DB} is not bound: in use; tried again every second`,
      ],
    },
  ]],
  ["is not ready when one of two workers refuses connections", "all", [
    { seen: [[up("inbound"), up(DB)], [up("inbound"), up(DB)]] },
    {
      seen: [[up("inbound"), up(DB)], [refusing("inbound"), up(DB)]],
      notReady: [`listener inbound ${EXPIRED}`],
    },
  ]],
  ["stays ready while a worker is replaced", "all", [
    { seen: [[up("inbound"), up(DB)], [up("inbound"), up(DB)]] },
    { seen: [[], [up("inbound"), up(DB)]] },
    { seen: [[binding("inbound")], [up("inbound"), up(DB)]] },
    { seen: [[], []], notReady: [`listeners inbound, ${DB} are not bound yet`] },
  ]],
  ["keeps its last state while no worker answers", "all", [
    { seen: [[up("inbound"), up(DB)]] },
    { seen: [] },
  ]],
  ["is not ready while a worker is stuck, also with any", "any", [
    { seen: [[up("inbound"), up(DB)]] },
    {
      seen: [[up("inbound"), up(DB)]],
      stuck: ["worker 1 is stuck"],
      notReady: ["worker 1 is stuck"],
    },
    { seen: [[up("inbound"), up(DB)]] },
  ]],
  ["does not count a removed listener, also when the name comes back", "all", [
    { seen: [[up("inbound"), up(DB)]] },
    { seen: [[up("inbound")]], facts: { snapshot: { ...SNAPSHOT, upstreams: {} } } },
    // A new listener of the same name, which never was up.
    {
      seen: [[up("inbound"), unbound(DB)]],
      facts: { snapshot: SNAPSHOT },
      warnings: [`listener ${DB} is not bound: in use; tried again every second`],
    },
  ]],
  ["is ready without any listeners", "all", [{
    seen: [[]],
    facts: { snapshot: { ...SNAPSHOT, inbound: {}, upstreams: {} } },
  }]],
];

for (const [name, wanted, steps] of CASES) {
  test(`Readiness ${name}`, async () => {
    const { world, readiness } = rig(wanted);
    for (const { seen, facts, stuck = [], notReady = [], warnings = [] } of steps) {
      world.seen = seen;
      world.stuck = stuck;
      world.facts = { ...world.facts, ...facts };
      const health = await readiness.look();
      assert.deepEqual([health.notReady, health.warnings], [notReady, warnings]);
      // All but the lost connection to Consul stop a part of the traffic.
      const failing = warnings.filter((text) => !/^the agent /.test(text));
      assert.deepEqual(health.failing, failing);
    }
  });
}

test("Readiness counts all listeners and names three for each reason", async () => {
  const { world, readiness } = rig();
  const names = Array.from({ length: 500 }, (_, index) => `service:default/default/${index}`);
  const upstreams = Object.fromEntries(
    names.map((name) => [name, { ...SNAPSHOT.upstreams[DB] }]),
  ) as typeof SNAPSHOT.upstreams;
  world.facts = {
    ...world.facts,
    snapshot: { ...SNAPSHOT, upstreams },
    warming: ["secrets of y (a)"],
  };
  world.seen = [[up("inbound"), ...names.map((name) => refusing(name))]];
  const { listeners, warnings } = await readiness.look();
  assert.deepEqual(listeners, { total: 502, unusable: 501 });
  assert.deepEqual(warnings, [
    `listeners ${names.slice(0, 3).join(", ")} and 497 more ${
      EXPIRED.replace("refuses", "refuse")
    }`,
  ]);
  world.seen = [[up("inbound"), ...names.map((name) => refusing(name, name))]];
  const { warnings: different } = await readiness.look();
  assert.equal(different.length, 21);
  assert.ok(different.includes("and 480 more, see /listeners"));
});

test("Readiness looks periodically and reports each change once", async () => {
  const { clock, stopping, changes, world, readiness } = rig();
  world.seen = [[up("inbound"), up(DB)]];
  await readiness.watch();
  await readiness.look();
  world.seen = [[refusing("inbound"), up(DB)]];
  await clock.advance(5_000);
  await clock.advance(5_000);
  world.seen = [[up("inbound"), up(DB)]];
  await clock.advance(5_000);
  assert.deepEqual(changes, ["ready", `listener inbound ${EXPIRED}`, "ready"]);
  world.facts = { ...world.facts, draining: true };
  assert.deepEqual((await readiness.look()).notReady, ["draining"]);
  assert.equal(changes.length, 3);
  stopping.abort();
  assert.equal(clock.pending, 0);
});
