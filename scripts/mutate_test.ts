import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../src/base/mod.ts";
import { draw, mutationsOf } from "./tests/mutations.ts";

for (
  const [line, ...want] of [
    ["  if (a === b) return;", "  if (a !== b) return;", "  if (!(a === b)) return;"],
    [
      "  return i < list.length && ok;",
      "  return i <= list.length && ok;",
      "  return i < list.length || ok;",
    ],
    ["  const next = at + 1;", "  const next = at;"],
    ["  this.#count++;", "  this.#count--;"],
    ["  this.#timer.cancel();", "  ;"],
    ["  await this.closed;"],
    ["  state.ends = now + waitMs;", "  ;"],
    ['  log.warn("a === b && c");', "  ;"],
    ["  readonly list: ReadonlyMap<string, A>;"],
    ["  // a === b"],
    [" * a < b"],
    ["  .map((x) => x.length)"],
  ] as const
) {
  test(`mutationsOf() makes ${want.length} of "${line.trim()}"`, () => {
    assert.deepEqual(mutationsOf("a.ts", line).map(({ after }) => after), want);
  });
}

test("draw() draws the same from a seed, none twice, and no more than there are", () => {
  const mutations = mutationsOf("a.ts", "  a();\n  b();\n  c();\n  d();");
  const lines = (seed: number, count: number) =>
    draw(mutations, count, seededRandom(seed)).map(({ line }) => line);
  assert.deepEqual(lines(1, 3), lines(1, 3));
  assert.deepEqual(lines(1, 9).sort(), [1, 2, 3, 4]);
});
