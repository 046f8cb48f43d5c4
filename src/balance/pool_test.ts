import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../base/mod.ts";
import { outlierPolicy } from "./health.ts";
import { EndpointPool, sameBalancing } from "./pool.ts";
import type { Endpoint, EndpointState, LoadBalancing } from "./types.ts";

const A: Endpoint = { id: "n1/a", host: "10.0.0.1", port: 1, weight: 1 };
const B: Endpoint = { id: "n2/b", host: "10.0.0.2", port: 1, weight: 1 };
const C: Endpoint = { id: "n3/c", host: "10.0.0.3", port: 1, weight: 1 };
const ONE_STRIKE = outlierPolicy({ maxFailures: 1, maxEjectionPercent: 100 });

function poolOf(balancing: LoadBalancing = { kind: "round_robin" }, seed = 1): EndpointPool {
  return new EndpointPool({ balancing, outlier: ONE_STRIKE, random: seededRandom(seed) });
}

function pickIds(pool: EndpointPool, count: number, nowMs = 0): string[] {
  return Array.from({ length: count }, () => pool.pick(nowMs)?.endpoint.id ?? "none");
}

test("EndpointPool.update() keeps failures, leases and ejection of an endpoint that stays", () => {
  const pool = poolOf();
  pool.setPolicy({ kind: "round_robin" }, outlierPolicy({ maxFailures: 2 }));
  pool.update([A]);
  const a = pool.pick(0);
  assert.ok(a);
  pool.acquire(a);
  pool.failed(a, 0, "status 500");
  pool.update([{ ...A, weight: 7 }, B]);
  assert.equal(pool.failed(a, 0, "status 503"), true);
  pool.update([B, { ...A, weight: 9 }]);
  assert.equal(a.endpoint.weight, 9);
  assert.deepEqual(pool.views(1_000).find(({ id }) => id === A.id), {
    id: "n1/a",
    address: "10.0.0.1:1",
    weight: 9,
    active: 1,
    failures: 0,
    lastFailure: "status 503",
    failedAgoMs: 1_000,
    ejectedForMs: 29_000,
    lastResort: false,
  });
});

test("EndpointPool.resume() goes on with an ejection, within the policy and without endpoints it does not have", () => {
  const pool = poolOf();
  pool.update([A, B]);
  for (const address of ["10.0.0.1:1", "10.0.0.9:1"]) pool.resume(address, 5_000, 100);
  assert.deepEqual(pickIds(pool, 2, 5_099), ["n2/b", "n2/b"]);
  assert.deepEqual(new Set(pickIds(pool, 2, 5_100)), new Set(["n1/a", "n2/b"]));
  pool.setPolicy({ kind: "round_robin" }, outlierPolicy({ maxEjectionPercent: 0 }));
  pool.resume("10.0.0.2:1", 5_000, 6_000);
  assert.equal(pool.usableCount(6_000), 2);
});

test("EndpointPool.views() have the last failure until the endpoint succeeds", () => {
  const pool = poolOf();
  pool.setPolicy({ kind: "round_robin" }, outlierPolicy({ maxFailures: 2 }));
  pool.update([A]);
  const a = pool.pick(0);
  assert.ok(a);
  const last = () => pool.views(0)[0]?.lastFailure;
  pool.refused(a, 0, "refused");
  assert.equal(last(), "refused", "a refusal is shown, and does not count as a failure");
  pool.failed(a, 0, "status 503");
  assert.equal(last(), "status 503");
  pool.succeeded(a, 0);
  assert.equal(last(), "");
});

test("EndpointPool.views() have no last failure of an ejected endpoint that answered since", () => {
  const pool = poolOf();
  pool.update([A]);
  const a = pool.pick(0);
  assert.ok(a);
  for (let at = 0; at < 5; at++) pool.failed(a, 0, "status 503");
  const shown = (nowMs: number) => {
    const [{ ejectedForMs, lastFailure, failedAgoMs, answeredAgoMs } = assert.fail()] = pool.views(
      nowMs,
    );
    return [ejectedForMs, lastFailure, failedAgoMs, answeredAgoMs];
  };
  assert.deepEqual(shown(5_000), [25_000, "status 503", 5_000, undefined]);
  pool.succeeded(a, 6_000);
  assert.deepEqual(shown(9_000), [21_000, "", undefined, 3_000]);
  pool.failed(a, 9_000, "status 500");
  assert.deepEqual(shown(10_000), [20_000, "status 500", 1_000, 4_000]);
});

for (
  const [what, changed] of [
    ["id", { ...A, id: "n1/other" }],
    ["host", { ...A, host: "10.0.0.9" }],
    ["port", { ...A, port: 2 }],
  ] as const
) {
  test(`EndpointPool.update() forgets the state of an endpoint with another ${what}`, () => {
    const pool = poolOf();
    pool.update([A]);
    const before = pool.pick(0);
    assert.ok(before && pool.failed(before, 0));
    pool.update([changed]);
    assert.deepEqual(pool.pick(0)?.endpoint, changed);
  });
}

test("EndpointPool.failed() ignores an endpoint that left, also when its like returned", () => {
  const pool = poolOf();
  pool.update([A, B]);
  const a = [pool.pick(0), pool.pick(0)].find((state) => state?.endpoint === A);
  assert.ok(a);
  pool.acquire(a);
  pool.update([B]);
  assert.equal(pool.failed(a, 0), false);
  pool.update([A, B]);
  assert.equal(pool.failed(a, 0), false);
  pool.release(a);
  assert.deepEqual(pool.views(0).map(({ active }) => active), [0, 0]);
});

test("EndpointPool keeps the state of an endpoint that becomes a last resort and returns", () => {
  const pool = poolOf();
  pool.update([A, B]);
  const a = [pool.pick(0), pool.pick(0)].find((state) => state?.endpoint === A);
  assert.ok(a);
  pool.acquire(a);
  assert.equal(pool.failed(a, 0), true);
  pool.update([], [A, B]);
  assert.equal(pool.pick(1), undefined);
  assert.equal(pool.pickLastResort(1)?.endpoint, B);
  assert.equal(pool.usableCount(1), 0);
  assert.deepEqual(pool.views(1).map(({ lastResort }) => lastResort), [true, true]);
  pool.update([A, B], []);
  assert.deepEqual(pickIds(pool, 3, 2), [B.id, B.id, B.id]);
  assert.equal(a.active, 1);
  assert.equal(pool.pickLastResort(2), undefined);
});

test("EndpointPool.pickLastResort() leaves out no endpoint for good", () => {
  const pool = poolOf();
  pool.update([], [A, B]);
  const tried = new Set<EndpointState>();
  for (const [nowMs, id] of [A.id, B.id].entries()) {
    const state = pool.pickLastResort(nowMs, { exclude: tried });
    assert.equal(state?.endpoint.id, id);
    assert.equal(state && pool.failed(state, nowMs), true);
    if (state) tried.add(state);
  }
  assert.equal(pool.pickLastResort(2, { exclude: tried }), undefined);
  assert.equal(pool.pickLastResort(2)?.endpoint.id, A.id);
});

test("EndpointPool.silent() ejects at once, within the policy's limits", () => {
  for (const [policy, want] of [[{}, true], [{ enforcingPercent: 0 }, false]] as const) {
    const pool = new EndpointPool({
      balancing: { kind: "round_robin" },
      random: seededRandom(1),
      outlier: outlierPolicy(policy),
    });
    pool.update([A, B]);
    const state = pool.pick(0);
    assert.ok(state);
    assert.equal(pool.silent(state, 0), want);
    assert.equal(state.ejectedUntilMs, want ? 30_000 : 0);
    // An ejected endpoint is not ejected again.
    assert.equal(pool.silent(state, 1), false);
  }
});

test("EndpointPool.pickEjected() returns the ejected endpoint due back first", () => {
  const pool = poolOf();
  pool.update([A]);
  const a = pool.pick(0);
  assert.ok(a);
  assert.equal(pool.pickEjected(0), undefined);
  assert.equal(pool.failed(a, 0), true);
  assert.equal(pool.pick(1), undefined);
  assert.equal(pool.pickEjected(1), a);
  assert.equal(pool.pickEjected(1, { exclude: new Set([a]) }), undefined);
  const back = 300_001;
  assert.equal(pool.pick(back), a);
  assert.equal(pool.pickEjected(back), undefined);
});

test("EndpointPool lists an endpoint once that is both live and a last resort: as live", () => {
  const pool = poolOf();
  pool.update([A], [A, B]);
  assert.deepEqual(pool.views(0).map(({ id, lastResort }) => [id, lastResort]), [
    [A.id, false],
    [B.id, true],
  ]);
});

test("EndpointPool.setPolicy() changes balancing and passive health at once", () => {
  const pool = poolOf();
  pool.update([A, B]);
  const a = pool.pick(0);
  assert.ok(a);
  pool.setPolicy({ kind: "maglev" }, { ...ONE_STRIKE, enforcingPercent: 0 });
  assert.equal(pool.failed(a, 0), false);
  const owner = pool.pick(0, { hash: 1 });
  for (let i = 0; i < 20; i++) assert.equal(pool.pick(0, { hash: 1 }), owner);
});

test("EndpointPool.setPolicy() changes balancing of the last resort, too, and back again", () => {
  const pool = poolOf();
  pool.update([A, B, C], [A, B, C].map((one) => ({ ...one, port: 2 })));
  const owners = () =>
    (["pick", "pickLastResort"] as const).map((pick) =>
      new Set(Array.from({ length: 6 }, () => pool[pick](0, { hash: 1 })?.endpoint.id)).size
    );
  assert.deepEqual(owners(), [3, 3]);
  pool.setPolicy({ kind: "maglev" }, ONE_STRIKE);
  assert.deepEqual(owners(), [1, 1]);
  pool.setPolicy({ kind: "round_robin" }, ONE_STRIKE);
  assert.deepEqual(owners(), [3, 3]);
});

for (
  const [choiceCount, looksAtBoth] of [[1, false], [1.9, false], [0.5, true], [2, true]] as const
) {
  test(`least_request of ${choiceCount} looks at ${looksAtBoth ? "both" : "one"} of two`, () => {
    const balancing = { kind: "least_request", choiceCount } as const;
    const pool = new EndpointPool({ balancing, outlier: ONE_STRIKE, random: () => 0 });
    pool.update([A, B]);
    const first = pool.pick(0);
    assert.ok(first);
    pool.acquire(first);
    assert.equal(pool.pick(0) !== first, looksAtBoth);
  });
}

test("EndpointPool.setPolicy() keeps current ejections until their end", () => {
  const pool = poolOf();
  pool.update([A, B]);
  const a = pool.pick(0);
  assert.ok(a && pool.failed(a, 0));
  pool.setPolicy({ kind: "random" }, { ...ONE_STRIKE, enforcingPercent: 0 });
  for (let i = 0; i < 50; i++) assert.notEqual(pool.pick(29_999), a);
});

test("round_robin rotates evenly in any window, wherever it starts", () => {
  for (let seed = 0; seed < 20; seed++) {
    const pool = poolOf({ kind: "round_robin" }, seed);
    pool.update([A, B, C]);
    pickIds(pool, seed);
    assert.deepEqual(pickIds(pool, 3).sort(), [A.id, B.id, C.id]);
  }
});

test("round_robin starts at different endpoints in different proxies", () => {
  const starts = new Set<string>();
  for (let seed = 0; seed < 20; seed++) {
    const pool = poolOf({ kind: "round_robin" }, seed);
    pool.update([A, B, C]);
    starts.add(pickIds(pool, 1)[0] ?? "");
  }
  assert.equal(starts.size, 3);
});

test("round_robin spreads the turns of a heavy endpoint between those of light ones", () => {
  for (let seed = 0; seed < 20; seed++) {
    const pool = poolOf({ kind: "round_robin" }, seed);
    pool.update([{ ...A, weight: 4 }, { ...B, weight: 2 }, C]);
    const ids = pickIds(pool, 700);
    for (let start = 0; start + 7 <= ids.length; start++) {
      const window = ids.slice(start, start + 7);
      const count = (id: string) => window.filter((other) => other === id).length;
      assert.deepEqual([count(A.id), count(B.id), count(C.id)], [4, 2, 1], window.join());
    }
    assert.ok(!/(n1\/a,){4}/.test(`${ids.join()},`), "all of a's turns came at once");
  }
});

test("least_request picks the less busy of two, every time", () => {
  const pool = poolOf({ kind: "least_request", choiceCount: 2 });
  pool.update([A, B]);
  for (let i = 0; i < 100; i++) {
    const state = pool.pick(0);
    assert.ok(state);
    pool.acquire(state);
  }
  assert.deepEqual(pool.views(0).map(({ active }) => active), [50, 50]);
});

test("least_request keeps leases closer together than random choice", () => {
  const spread = (kind: LoadBalancing) => {
    const pool = poolOf(kind, 7);
    pool.update(Array.from({ length: 100 }, (_, i) => ({ ...A, id: `${i}` })));
    for (let i = 0; i < 5_000; i++) {
      const state = pool.pick(0);
      assert.ok(state);
      pool.acquire(state);
    }
    const active = pool.views(0).map((view) => view.active);
    return Math.max(...active) - Math.min(...active);
  };
  const chance = spread({ kind: "random" });
  const choice = spread({ kind: "least_request", choiceCount: 2 });
  assert.ok(choice <= 8 && chance >= 20, `${choice} by choice, ${chance} by chance`);
});

test("least_request keeps leases in proportion to weight", () => {
  const pool = poolOf({ kind: "least_request", choiceCount: 2 });
  pool.update([{ ...A, weight: 6 }, { ...B, weight: 3 }, C]);
  for (let i = 0; i < 1_000; i++) {
    const state = pool.pick(0);
    assert.ok(state);
    pool.acquire(state);
  }
  const [a = 0, b = 0, c = 0] = pool.views(0).map(({ active }) => active);
  assert.ok(
    Math.abs(a - 600) < 30 && Math.abs(b - 300) < 30 && Math.abs(c - 100) < 30,
    `${a} ${b} ${c}`,
  );
});

test("ring_hash gives each endpoint a point, also on a ring smaller than the target", () => {
  const pool = poolOf({ kind: "ring_hash", minimumSize: 1, maximumSize: 4 });
  pool.update(Array.from({ length: 40 }, (_, i) => ({ ...A, id: `${i}`, host: `10.0.1.${i}` })));
  const seen = new Set<unknown>();
  for (let hash = 0; hash < 20_000; hash++) seen.add(pool.pick(0, { hash }));
  assert.equal(seen.size, 40);
});

test("an update that changes nothing but the order keeps the balancer's place", () => {
  const pool = poolOf();
  pool.update([A, B, C]);
  const first = pickIds(pool, 2);
  pool.update([C, A, B]);
  assert.deepEqual([...first, ...pickIds(pool, 1)].sort(), [A.id, B.id, C.id]);
});

const KINDS: readonly LoadBalancing[] = [
  { kind: "round_robin" },
  { kind: "random" },
  { kind: "maglev" },
  { kind: "least_request", choiceCount: 2 },
  { kind: "least_request", choiceCount: 3 },
  { kind: "ring_hash", minimumSize: 8, maximumSize: 64 },
  { kind: "ring_hash", minimumSize: 9, maximumSize: 64 },
  { kind: "ring_hash", minimumSize: 8, maximumSize: 65 },
];

test("sameBalancing() distinguishes all policies and their sizes", () => {
  for (const a of KINDS) {
    for (const b of KINDS) {
      assert.equal(sameBalancing(a, { ...b }), a === b, JSON.stringify([a, b]));
    }
  }
});
