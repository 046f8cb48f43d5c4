import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DEFAULT_OUTLIER,
  type InstanceHealth,
  judgeHealth,
  mayEject,
  outlierPolicy,
} from "./health.ts";
import { EndpointPool } from "./pool.ts";
import type { EndpointState, OutlierPolicy } from "./types.ts";

for (
  const [name, overrides, want] of [
    ["gives Envoy's defaults", {}, {}],
    ["reads 0 failures as unset", { maxFailures: 0 }, { maxFailures: 5 }],
    ["reads an interval of 0 as unset", { intervalMs: 0 }, { intervalMs: 10_000 }],
    ["keeps an enforcement of 0", { enforcingPercent: 0 }, { enforcingPercent: 0 }],
    ["keeps a share of 0", { maxEjectionPercent: 0 }, { maxEjectionPercent: 0 }],
    ["keeps given values", { maxFailures: 3, intervalMs: 1 }, { maxFailures: 3, intervalMs: 1 }],
    ["raises the maximum to the base", { baseEjectionMs: 4e5 }, {
      baseEjectionMs: 4e5,
      maxEjectionMs: 4e5,
    }],
  ] as [string, Partial<OutlierPolicy>, Partial<OutlierPolicy>][]
) {
  test(`outlierPolicy() ${name}`, () => {
    assert.deepEqual(outlierPolicy(overrides), { ...DEFAULT_OUTLIER, ...want });
  });
}

for (
  const [percent, ejected, size, want] of [
    [10, 0, 1, true],
    [10, 0, 9, true],
    [10, 1, 9, false],
    [10, 1, 19, false],
    [10, 1, 20, true],
    [10, 2, 20, false],
    [50, 1, 4, true],
    [50, 2, 4, false],
    [100, 3, 4, true],
    [0, 0, 100, false],
  ] as const
) {
  test(`mayEject() at ${percent} % with ${ejected} of ${size} ejected: ${want}`, () => {
    assert.equal(mayEject(ejected, size, outlierPolicy({ maxEjectionPercent: percent })), want);
  });
}

/** A pool of `size`, and its endpoints in order. */
function setUp(
  policy: Partial<OutlierPolicy>,
  { size = 1, random = () => 0 }: { readonly size?: number; readonly random?: () => number } = {},
): { pool: EndpointPool; states: EndpointState[] } {
  const outlier = { ...outlierPolicy({}), ...policy };
  const pool = new EndpointPool({ balancing: { kind: "round_robin" }, outlier, random });
  pool.update(
    Array.from(
      { length: size },
      (_, index) => ({ id: `${index}`, host: `10.0.0.${index}`, port: 1, weight: 1 }),
    ),
  );
  const picked = Array.from({ length: size }, () => pool.pick(0));
  const states = picked.filter((state) => state !== undefined);
  return { pool, states: states.sort((a, b) => Number(a.endpoint.id) - Number(b.endpoint.id)) };
}

function fail(pool: EndpointPool, state: EndpointState, times: number, nowMs: number): boolean[] {
  return Array.from({ length: times }, () => pool.failed(state, nowMs));
}

test("EndpointPool.failed() ejects at the fifth failure in a row", () => {
  const { pool, states: [state] } = setUp({});
  assert.ok(state);
  assert.deepEqual(fail(pool, state, 5, 0), [false, false, false, false, true]);
  assert.equal(pool.pick(29_999), undefined);
  assert.equal(pool.pick(30_000), state);
});

test("EndpointPool.succeeded() makes failures count from zero again", () => {
  const { pool, states: [state] } = setUp({});
  assert.ok(state);
  fail(pool, state, 4, 0);
  pool.succeeded(state, 0);
  assert.deepEqual(fail(pool, state, 5, 0), [false, false, false, false, true]);
});

test("EndpointPool.failed() counts nothing while ejected, and from zero afterwards", () => {
  const { pool, states: [state] } = setUp({ maxFailures: 2 });
  assert.ok(state);
  fail(pool, state, 2, 0);
  assert.deepEqual(fail(pool, state, 5, 1_000), [false, false, false, false, false]);
  assert.deepEqual(fail(pool, state, 2, 30_000), [false, true]);
});

test("ejections get longer by the base each time, up to the maximum", () => {
  const { pool, states: [state] } = setUp({ maxFailures: 1 });
  assert.ok(state);
  const lengths: number[] = [];
  let nowMs = 0;
  for (let round = 0; round < 12; round++) {
    assert.equal(pool.failed(state, nowMs), true);
    const [view] = pool.views(nowMs);
    const lengthMs = view?.ejectedForMs ?? 0;
    lengths.push(lengthMs / 1000);
    nowMs += lengthMs;
  }
  assert.deepEqual(lengths, [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]);
});

test("without an interval no ejection is remembered once it has ended", () => {
  const { pool, states: [state] } = setUp({ maxFailures: 1, intervalMs: 0 });
  assert.ok(state);
  for (const nowMs of [0, 30_000, 70_000]) {
    assert.equal(pool.failed(state, nowMs), true);
    assert.equal(pool.views(nowMs)[0]?.ejectedForMs, 30_000);
  }
});

for (
  const [healthyMs, wantMs] of [
    [0, 120_000],
    [9_999, 120_000],
    [10_000, 90_000],
    [
      20_000,
      60_000,
    ],
    [30_000, 30_000],
    [1e9, 30_000],
  ] as const
) {
  test(`after three ejections and ${healthyMs} ms of health the next lasts ${wantMs} ms`, () => {
    const { pool, states: [state] } = setUp({ maxFailures: 1 });
    assert.ok(state);
    let nowMs = 0;
    for (const lengthMs of [30_000, 60_000, 90_000]) {
      pool.failed(state, nowMs);
      nowMs += lengthMs;
    }
    nowMs += healthyMs;
    assert.equal(pool.failed(state, nowMs), true);
    assert.equal(pool.views(nowMs)[0]?.ejectedForMs, wantMs);
  });
}

test("at most the policy's share is ejected, but always one", () => {
  for (const [size, want] of [[1, 1], [5, 1], [10, 1], [20, 2], [50, 5]] as const) {
    const { pool, states } = setUp({ maxFailures: 1 }, { size });
    const ejected = states.filter((state) => pool.failed(state, 0)).length;
    assert.equal(ejected, want, `of ${size}`);
    assert.equal(pool.usableCount(0), size - want);
  }
});

test("a place in the share is free again when an ejection ends", () => {
  const { pool, states: [a, b] } = setUp({ maxFailures: 1 }, { size: 5 });
  assert.ok(a && b);
  assert.equal(pool.failed(a, 0), true);
  assert.equal(pool.failed(b, 29_999), false);
  assert.equal(pool.failed(b, 30_000), true);
});

test("a due ejection happens with the policy's probability", () => {
  for (
    const [enforcingPercent, chance, want] of [
      [100, 0.999, true],
      [50, 0.49, true],
      [50, 0.5, false],
      [0, 0, false],
    ] as const
  ) {
    const { pool, states: [state] } = setUp({ maxFailures: 1, enforcingPercent }, {
      random: () => chance,
    });
    assert.ok(state);
    assert.equal(pool.failed(state, 0), want, `${enforcingPercent} % at ${chance}`);
  }
});

test("an ejection skipped by chance is due again after as many failures", () => {
  let chance = 0.9;
  const { pool, states: [state] } = setUp({ maxFailures: 3, enforcingPercent: 50 }, {
    random: () => chance,
  });
  assert.ok(state);
  assert.deepEqual(fail(pool, state, 3, 0), [false, false, false]);
  chance = 0;
  assert.deepEqual(fail(pool, state, 3, 0), [false, false, true]);
});

test("a policy with 0 failures never ejects, as in Envoy", () => {
  const { pool, states: [state] } = setUp({ maxFailures: 0 });
  assert.ok(state);
  assert.ok(!fail(pool, state, 100, 0).includes(true));
});

for (
  const [health, passing, warning, onlyPassing, want] of [
    ["passing", 1, 1, false, 1],
    ["passing", 10, 1, false, 10],
    ["passing", 10, 1, true, 10],
    ["passing", 0, 5, false, 0],
    ["passing", -1, 5, false, 0],
    ["passing", 128, 1, false, 128],
    ["passing", 129, 1, false, 128],
    ["passing", 65_535, 1, false, 128],
    ["passing", NaN, 1, false, 0],
    ["warning", 10, 1, false, 1],
    ["warning", 10, 3, false, 3],
    ["warning", 10, 500, false, 128],
    ["warning", 10, 0, false, 0],
    ["warning", 10, 3, true, 0],
    ["critical", 10, 10, false, 0],
    ["critical", 10, 10, true, 0],
  ] as [InstanceHealth["health"], number, number, boolean, number][]
) {
  const which = onlyPassing ? "only passing" : "any";
  test(`judgeHealth() gives ${health} ${passing}/${warning} (${which}) the weight ${want}`, () => {
    const usability = judgeHealth({ health, weights: { passing, warning } }, { onlyPassing });
    assert.deepEqual(usability, { usable: want > 0, weight: want });
  });
}
