import assert from "node:assert/strict";
import { test } from "node:test";
import { lackOf } from "./targets.ts";

const SET = { maintenance: 'set on service db-1: "update"' };
const DOWN = "the agent answered 500: No path to datacenter";

for (
  const [instances, usable, failing, words] of [
    [[{}, {}], 1, undefined, ""],
    [[{}, {}], 1, DOWN, ""],
    [[], 0, undefined, 'nobody is registered as "db" in dc2'],
    [[{}], 0, undefined, 'the only instance of "db" in dc2 fails its checks'],
    [[{}, {}, {}], 0, undefined, 'all 3 instances of "db" in dc2 fail their checks'],
    [
      [SET],
      0,
      undefined,
      'the only instance of "db" in dc2 is in maintenance mode (set on service db-1: "update")',
    ],
    [
      [SET, { maintenance: "set on its node" }],
      0,
      undefined,
      'all 2 instances of "db" in dc2 are in maintenance mode',
    ],
    [
      [SET, {}, {}],
      0,
      undefined,
      'of 3 instances of "db" in dc2, 1 is in maintenance mode (set on service db-1: "update") ' +
      "and 2 fail their checks",
    ],
    [undefined, 0, undefined, 'who there is of "db" in dc2 has not been answered yet'],
    [undefined, 0, DOWN, `who there is of "db" in dc2 cannot be known: ${DOWN}`],
    [[], 0, DOWN, `nobody is registered as "db" in dc2, as far as is known: ${DOWN}`],
  ] as const
) {
  test(`lackOf() returns "${words}"`, () => {
    assert.equal(lackOf({ of: '"db" in dc2', instances, usable, failing }), words);
  });
}
