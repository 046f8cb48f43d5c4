import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  chainOf,
  declared,
  snapshotOf,
  targetOf,
  upstreamOf,
} from "../../../test/kit/engine/snapshots.ts";
import { Stats } from "../../base/mod.ts";
import type { Target } from "../../plugin/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { SharedCounts, SharedLimiter } from "../core/admission.ts";
import { ListenerStats } from "../observe/listener_stats.ts";
import { Upstream } from "./upstream.ts";

for (
  const balancing of [
    { kind: "ring_hash", minimumSize: 64, maximumSize: 64 },
    { kind: "maglev" },
  ] as const
) {
  test(`connections of one caller go to one endpoint with ${balancing.kind}, once the chain has it`, async () => {
    const first = snapshotOf({
      ca: createAuthority(),
      service: "web",
      upstreams: [{ name: "db" }],
      targets: [targetOf({ name: "db", uris: [], ports: [1, 2, 3, 4] })],
    });
    await using path = await startMemoryPath(first);
    const { engine, port } = path;
    const dialled = () => {
      const before = engine.dials.length;
      for (let count = 0; count < 20; count++) engine.call(port("db"));
      const addresses = engine.dials.slice(before).map(({ options }) => options.address);
      return new Set(addresses.map((address) => JSON.stringify(address))).size;
    };
    assert.equal(dialled(), 4);
    await path.set({ ...first, version: -1, ...declared({ name: "db", balancing }) });
    assert.equal(dialled(), 1);
  });
}

const PART = upstreamOf({ name: "db" });
const [EMPTY] = Object.values(chainOf({ targets: [] }).resolvers);

/** Targets by id; the resolvers are v1, then spare in two datacenters, and v2. */
function upstreamWith(resolvers: Readonly<Record<string, readonly string[]>>): Upstream {
  const counts = SharedCounts.create(1);
  const limiter = () => new SharedLimiter(counts, { row: 0, column: 0, limit: 1 });
  const upstream = new Upstream(PART, {
    stats: new ListenerStats(new Stats(), "outbound", "db"),
    connections: limiter(),
    pending: limiter(),
    requests: limiter(),
    callers: limiter(),
    random: () => 0,
  });
  upstream.update(PART, snapshotFor(resolvers));
  return upstream;
}

function snapshotFor(resolvers: Readonly<Record<string, readonly string[]>>): Snapshot {
  const ids = new Set(Object.values(resolvers).flat());
  const targets = [...ids].map((id) => {
    const [subset = "", service = "", datacenter = ""] = id.split(".");
    const names = { id, service, subset, datacenter };
    return targetOf({ name: `db#${id}`, uris: [], ports: [1], overrides: { names } });
  });
  const chain = chainOf({ targets: [] });
  return {
    ...snapshotOf({ ca: createAuthority(), service: "web" }),
    chains: {
      [PART.chain]: {
        ...chain,
        resolvers: Object.fromEntries(
          Object.entries(resolvers).flatMap(([key, ids]) =>
            EMPTY ? [[key, { ...EMPTY, targets: ids.map((id) => `db#${id}`) }]] : []
          ),
        ),
      },
    },
    targets: Object.fromEntries(targets.map((target) => [target.key, target])),
  };
}

const RESOLVERS = { v1: ["v1.db.dc1", "v1.db.dc2", ".spare.dc1"], v2: ["v2.db.dc1"] };

for (
  const [wanted, want] of [
    [{ subset: "v2" }, "v2.db.dc1"],
    [{ subset: "v1" }, "v1.db.dc1, then v1.db.dc2, then .spare.dc1"],
    [{ subset: "v1", datacenter: "dc2" }, "v1.db.dc2"],
    [{ service: "spare" }, ".spare.dc1"],
    [{ subset: "" }, ".spare.dc1"],
    [{ id: "v2.db.dc1" }, "v2.db.dc1"],
    [{ service: "db" }, "may be each of v1.db.dc1, v2.db.dc1"],
    [{ subset: "v3" }, "is not there; db has v1.db.dc1, v1.db.dc2, .spare.dc1, v2.db.dc1"],
    [{ id: "v2.db.dc1", subset: "v1" }, /^is not there/],
  ] as readonly (readonly [Target, string | RegExp])[]
) {
  test(`chosenGroup() of ${JSON.stringify(wanted)}`, () => {
    const chosen = upstreamWith(RESOLVERS).chosenGroup(wanted);
    const text = chosen.kind === "none"
      ? chosen.reason
      : [...chosen.group.targets].map(({ part }) => part.names?.id).join(", then ");
    if (typeof want === "string") assert.equal(text, want);
    else assert.match(text, want);
  });
}

test("chosenGroup() of a failover target stays the same until the chain loses the target", () => {
  const upstream = upstreamWith(RESOLVERS);
  const spare = { service: "spare" };
  const groupOf = () => {
    const chosen = upstream.chosenGroup(spare);
    return chosen.kind === "group" ? chosen.group : chosen.reason;
  };
  const group = groupOf();
  assert.equal([...upstream.groups].length, 3);
  upstream.update(PART, snapshotFor(RESOLVERS));
  assert.equal(groupOf(), group);
  upstream.update(PART, snapshotFor({ v2: ["v2.db.dc1"] }));
  assert.equal(groupOf(), "is not there; db has v2.db.dc1");
  assert.equal([...upstream.groups].length, 1);
});
