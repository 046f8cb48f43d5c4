/** The contract of every balancer. It runs against a pool, as the proxy uses it. @module */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Endpoint,
  EndpointPool,
  type EndpointState,
  type LoadBalancing,
  outlierPolicy,
} from "../../../src/balance/mod.ts";
import { seededRandom } from "../../../src/base/mod.ts";
import { rounds } from "../../kit/clock/long.ts";

const MANY = rounds("endpoints of one pool", { few: 1_000, all: 10_000 });

/** One failure ejects for a second, all endpoints if need be. */
const STRICT = outlierPolicy({
  maxFailures: 1,
  maxEjectionPercent: 100,
  baseEjectionMs: 1_000,
});

interface Contract {
  readonly balancing: LoadBalancing;
  /** How far a share of picks may be off, as part of the expected share. */
  readonly tolerance: number;
}

export function endpoints(
  count: number,
  weightOf: (index: number) => number = () => 1,
): Endpoint[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `node-${index}/db`,
    host: `10.0.${index >> 8}.${index & 255}`,
    port: 20_000,
    weight: weightOf(index),
  }));
}

export function poolOf(
  balancing: LoadBalancing,
  list: readonly Endpoint[],
  seed = 1,
): EndpointPool {
  const pool = new EndpointPool({ balancing, outlier: STRICT, random: seededRandom(seed) });
  pool.update(list);
  return pool;
}

/** Picks by id, each lease given back at once, no hash given. */
function countPicks(pool: EndpointPool, picks: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (let i = 0; i < picks; i++) {
    const id = pool.pick(0)?.endpoint.id ?? "none";
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}

function pickAll(pool: EndpointPool, nowMs: number): EndpointState[] {
  const tried = new Set<EndpointState>();
  for (let hash = 0;; hash++) {
    const state = pool.pick(nowMs, { hash, exclude: tried });
    if (!state) return [...tried];
    assert.ok(!tried.has(state), "an excluded endpoint was picked");
    tried.add(state);
  }
}

function ids(states: readonly EndpointState[]): string[] {
  return states.map(({ endpoint }) => endpoint.id).sort();
}

export function balancerContract(name: string, { balancing, tolerance }: Contract): void {
  test(`${name} has nothing to pick from an empty target`, () => {
    const pool = poolOf(balancing, []);
    assert.equal(pool.pick(0, { hash: 7 }), undefined);
    assert.equal(pool.pick(0), undefined);
    assert.equal(pool.pickLastResort(0), undefined);
  });

  for (const weight of [1, 128]) {
    test(`${name} always picks the only endpoint (weight ${weight})`, () => {
      const pool = poolOf(balancing, endpoints(1, () => weight));
      assert.deepEqual(countPicks(pool, 50), new Map([["node-0/db", 50]]));
    });
  }

  for (const count of [2, 3, 10, 200]) {
    test(`${name} gets past excluded ones to each of ${count} and then to none`, () => {
      for (const weightOf of [() => 1, (index: number) => 1 + index % 5]) {
        const list = endpoints(count, weightOf);
        assert.deepEqual(ids(pickAll(poolOf(balancing, list), 0)), list.map(({ id }) => id).sort());
      }
    });
  }

  test(`${name} never picks an ejected endpoint, and picks it again when its time is over`, () => {
    const pool = poolOf(balancing, endpoints(5, (index) => 1 + index));
    const [out] = pickAll(pool, 0);
    assert.ok(out);
    assert.equal(pool.failed(out, 100), true);
    for (let i = 0; i < 500; i++) assert.notEqual(pool.pick(1_099, { hash: i }), out);
    assert.equal(pool.usableCount(1_099), 4);
    assert.equal(pickAll(pool, 1_100).includes(out), true);
  });

  test(`${name} picks nothing when all are ejected`, () => {
    const pool = poolOf(balancing, endpoints(4));
    for (const state of pickAll(pool, 0)) assert.equal(pool.failed(state, 0), true);
    assert.equal(pool.pick(999, { hash: 1 }), undefined);
    assert.ok(pool.pick(1_000, { hash: 1 }));
  });

  test(`${name} follows an update: leavers are not picked, newcomers are, stayers keep leases`, () => {
    const pool = poolOf(balancing, endpoints(4));
    const before = pickAll(pool, 0);
    for (const state of before) pool.acquire(state);
    pool.update(endpoints(6).slice(2));
    const after = pickAll(pool, 0);
    assert.deepEqual(ids(after), ["node-2/db", "node-3/db", "node-4/db", "node-5/db"]);
    for (const state of after) assert.equal(state.active, before.includes(state) ? 1 : 0);
    assert.equal(after.filter((state) => before.includes(state)).length, 2);
    pool.update([]);
    assert.equal(pool.pick(0), undefined);
  });

  test(`${name} keeps the last resort apart`, () => {
    const pool = poolOf(balancing, []);
    pool.update([], endpoints(3));
    assert.equal(pool.pick(0, { hash: 1 }), undefined);
    const state = pool.pickLastResort(0, { hash: 1 });
    assert.equal(state?.lastResort, true);
  });

  for (
    const [what, count, weightOf] of [
      ["evenly", 8, () => 1],
      ["by weight", 3, (index: number) => [1, 2, 5][index] ?? 1],
      ["by extreme weights", 2, (index: number) => [1, 128][index] ?? 1],
    ] as const
  ) {
    test(`${name} shares picks ${what}`, () => {
      const list = endpoints(count, weightOf);
      const total = list.reduce((sum, { weight }) => sum + weight, 0);
      const picks = 400 * total;
      const counts = countPicks(poolOf(balancing, list, 42), picks);
      for (const { id, weight } of list) {
        const due = (picks * weight) / total;
        const got = counts.get(id) ?? 0;
        assert.ok(Math.abs(got - due) <= tolerance * due, `${id}: ${got} picks, ${due} are due`);
      }
    });
  }

  test(`${name} survives weights that make no sense and endpoints listed twice`, () => {
    const list = [NaN, 0, -5, 1e12, Infinity, 0.5].map((weight, index) => ({
      ...endpoints(6)[index] as Endpoint,
      weight,
    }));
    const pool = poolOf(balancing, [...list, ...list]);
    assert.equal(pickAll(pool, 0).length, 6);
    for (const { weight } of pool.views(0)) assert.ok(weight >= 1 && weight <= 128);
  });

  test(`${name} takes any number for a hash`, () => {
    const pool = poolOf(balancing, endpoints(3));
    for (const hash of [0, -1, 2 ** 32 - 1, 2 ** 53 - 1, 0.5, NaN, Infinity]) {
      assert.ok(pool.pick(0, { hash }), String(hash));
    }
  });

  test(`${name} copes with very many endpoints of which a tenth is ejected`, () => {
    const pool = poolOf(balancing, endpoints(MANY, (index) => 1 + index % 7));
    pool.setPolicy(balancing, { ...STRICT, maxEjectionPercent: 10 });
    let ejected = 0;
    for (let hash = 0; hash < MANY * 0.4; hash++) {
      const state = pool.pick(0, { hash });
      assert.ok(state && !state.ejected);
      if (pool.failed(state, 0)) ejected++;
    }
    assert.equal(ejected, MANY / 10);
    assert.equal(pool.usableCount(0), MANY * 0.9);
  });
}
