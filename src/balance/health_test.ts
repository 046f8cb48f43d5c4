import assert from "node:assert/strict";
import { test } from "node:test";
import { type InstanceHealth, judgeHealth } from "./health.ts";

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
