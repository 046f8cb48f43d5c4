import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { seededRandom } from "../base/mod.ts";
import { outlierPolicy } from "./health.ts";
import { EndpointPool } from "./pool.ts";
import type { EndpointState, LoadBalancing } from "./types.ts";

const ring = (minimumSize: number, maximumSize: number) =>
  ({ kind: "ring_hash", minimumSize, maximumSize }) as const;
const MAGLEV = { kind: "maglev" } as const;

// A key keeps its endpoint across proxies of different versions, too. A change of one of these digests
// moves the keys of every mesh with its update.
for (
  const [balancing, weights, want] of [
    [ring(1024, 8_388_608), [1, 1, 1, 1, 1, 1, 1], "12c66cc2f851d407"],
    [ring(1, 8_388_608), [2, 4, 10, 3], "7a3a76ff35a94b83"],
    [ring(8, 8), [1, 1, 1, 1], "50b704e2510491d3"],
    [ring(64, 32), [1, 2, 3, 128], "9e244324b21cfc0e"],
    [MAGLEV, [1, 1, 1, 1, 1, 1, 1], "ac4bf9437b85fcee"],
    [MAGLEV, [1, 2, 3, 128], "7e2165f90670eabf"],
  ] as const satisfies readonly (readonly [LoadBalancing, readonly number[], string])[]
) {
  test(`${JSON.stringify(balancing)} of ${weights} keeps the endpoint of every key`, () => {
    const outlier = outlierPolicy({ maxFailures: 1, maxEjectionPercent: 100 });
    const pool = new EndpointPool({ balancing, outlier, random: seededRandom(1) });
    pool.update(
      weights.map((weight, index) => ({
        id: `${index}`,
        host: `10.1.0.${index}`,
        port: 80,
        weight,
      })),
    );
    const digest = createHash("sha256");
    const add = (state: EndpointState | undefined) =>
      digest.update(`${state?.endpoint.id ?? "none"} `);
    for (let hash = 0; hash < 500; hash++) {
      const first = pool.pick(0, { hash });
      assert.ok(first);
      add(first);
      add(pool.pick(0, { hash, exclude: new Set([first]) }));
    }
    const out = pool.pick(0, { hash: 7 });
    assert.ok(out && pool.failed(out, 0));
    for (let hash = 0; hash < 500; hash++) add(pool.pick(0, { hash }));
    assert.equal(digest.digest("hex").slice(0, 16), want);
  });
}
