import assert from "node:assert/strict";
import { test } from "node:test";
import type { EndpointPool, LoadBalancing } from "../../../src/balance/mod.ts";
import { mix32 } from "../../../src/balance/hash.ts";
import { balancerContract, endpoints, poolOf } from "./contract.ts";

const RING = { kind: "ring_hash", minimumSize: 1024, maximumSize: 8_388_608 } as const;

balancerContract("round_robin", { balancing: { kind: "round_robin" }, tolerance: 0.01 });
balancerContract("random", { balancing: { kind: "random" }, tolerance: 0.2 });
balancerContract("least_request", {
  balancing: { kind: "least_request", choiceCount: 2 },
  tolerance: 0.2,
});
balancerContract("least_request of 5", {
  balancing: { kind: "least_request", choiceCount: 5 },
  tolerance: 0.2,
});
// A ring of 128 points an endpoint is as uneven as that.
balancerContract("ring_hash", { balancing: { ...RING, minimumSize: 65_536 }, tolerance: 0.25 });
balancerContract("maglev", { balancing: { kind: "maglev" }, tolerance: 0.2 });

/** Which endpoint each of 10,000 keys belongs to. */
function owners(pool: EndpointPool): (string | undefined)[] {
  return Array.from({ length: 10_000 }, (_, hash) => pool.pick(0, { hash })?.endpoint.id);
}

for (const balancing of [RING, { kind: "maglev" }] as const satisfies LoadBalancing[]) {
  const { kind } = balancing;

  test(`${kind} keeps a key with its endpoint, in every proxy and whatever the list's order`, () => {
    const list = endpoints(10);
    const here = owners(poolOf(balancing, list, 1));
    assert.deepEqual(owners(poolOf(balancing, list, 2)), here);
    assert.deepEqual(owners(poolOf(balancing, list.toReversed(), 3)), here);
  });

  test(`${kind} moves few keys when one of ten endpoints leaves, and back when it returns`, () => {
    const list = endpoints(10);
    const pool = poolOf(balancing, list);
    const before = owners(pool);
    pool.update(list.slice(1));
    const without = owners(pool);
    const moved = before.filter((id, key) => id !== without[key]).length;
    const owned = before.filter((id) => id === "node-0/db").length;
    assert.ok(owned > 500 && owned < 1_700, `it owned ${owned} of 10,000 keys`);
    assert.ok(moved < 2_000, `${moved} of 10,000 keys moved`);
    if (kind === "ring_hash") assert.equal(moved, owned);
    pool.update(list);
    assert.deepEqual(owners(pool), before);
  });

  test(`${kind} moves only the keys of an ejected endpoint, to several others`, () => {
    const pool = poolOf(balancing, endpoints(10));
    const before = owners(pool);
    const out = pool.pick(0, { hash: 5 });
    assert.ok(out && pool.failed(out, 0));
    const during = owners(pool);
    const heirs = new Set<string | undefined>();
    before.forEach((id, key) => {
      if (id === out.endpoint.id) heirs.add(during[key]);
      else assert.equal(during[key], id);
    });
    assert.ok(heirs.size >= 5 && !heirs.has(out.endpoint.id), `${heirs.size} heirs`);
  });

  test(`${kind} gives a key's second choice when the first is excluded`, () => {
    const pool = poolOf(balancing, endpoints(10));
    for (let hash = 0; hash < 100; hash++) {
      const first = pool.pick(0, { hash });
      assert.ok(first);
      const second = pool.pick(0, { hash, exclude: new Set([first]) });
      assert.ok(second && second !== first);
      assert.equal(pool.pick(0, { hash, exclude: new Set([first]) }), second);
    }
  });
}

test("ring_hash has no more points than its maximum, whatever its minimum", () => {
  const list = endpoints(4);
  const arcs = (maximumSize: number) => {
    const found = owners(poolOf({ ...RING, maximumSize }, list));
    // As the ring has them: by what a key is turned into.
    const around = found.map((id, key) => ({ id, at: mix32(key) })).sort((one, other) =>
      one.at - other.at
    );
    return around.filter(({ id }, index) => id !== around.at(index - 1)?.id).length;
  };
  assert.ok(arcs(8) <= 8, `${arcs(8)} arcs of 8 points`);
  assert.ok(arcs(8_388_608) > 500, `${arcs(8_388_608)} arcs of 1,024 points`);
});
