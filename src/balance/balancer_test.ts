import assert from "node:assert/strict";
import { test } from "node:test";
import { EndpointRecord } from "./types.ts";
import { equalWeights, firstAllowed, WeightedDraw } from "./balancer.ts";

const records = (...weights: number[]) =>
  weights.map((weight, index) =>
    new EndpointRecord(`${index}`, { id: `${index}`, host: "h", port: 1, weight }, false)
  );

for (
  const [weights, draws] of [
    [[1, 1, 1, 1], [[0, 0], [0.2499, 0], [0.25, 1], [0.75, 3], [0.9999, 3]]],
    [[1, 2, 1], [[0, 0], [0.2499, 0], [0.25, 1], [0.7499, 1], [0.75, 2], [0.9999, 2]]],
    [[1, 3], [[0, 0], [0.2499, 0], [0.25, 1], [0.9999, 1]]],
    [[5], [[0, 0], [0.9999, 0]]],
  ] as const
) {
  test(`WeightedDraw draws in proportion to the weights ${weights}`, () => {
    const draw = new WeightedDraw(records(...weights));
    assert.equal(draw.equal, new Set(weights).size === 1);
    for (const [chance, want] of draws) assert.equal(draw.draw(chance), want, String(chance));
  });
}

test("equalWeights() is true for none and for one", () => {
  assert.equal(equalWeights([]), true);
  assert.equal(equalWeights(records(3)), true);
  assert.equal(equalWeights(records(3, 3)), true);
  assert.equal(equalWeights(records(3, 3, 2)), false);
});

test("firstAllowed() looks at each once, from the start and wrapping around", () => {
  const all = records(1, 1, 1);
  const [a, b, c] = all;
  assert.equal(firstAllowed(all, undefined, 1), b);
  assert.equal(firstAllowed(all, new Set([b]), 1), c);
  assert.equal(firstAllowed(all, new Set([b, c]), 1), a);
  assert.equal(firstAllowed(all, new Set(all), 1), undefined);
  assert.equal(firstAllowed([], undefined, 0), undefined);
});
