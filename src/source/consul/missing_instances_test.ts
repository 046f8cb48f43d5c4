import assert from "node:assert/strict";
import { test } from "node:test";
import { lackOf } from "./targets.ts";

const DOWN = "the agent answered 500: No path to datacenter";

for (
  const [registered, usable, failing, words] of [
    [2, 1, undefined, ""],
    [2, 1, DOWN, ""],
    [0, 0, undefined, 'nobody is registered as "db" in dc2'],
    [1, 0, undefined, 'the only instance of "db" in dc2 fails its checks'],
    [3, 0, undefined, 'all 3 instances of "db" in dc2 fail their checks'],
    [undefined, 0, undefined, 'who there is of "db" in dc2 has not been answered yet'],
    [undefined, 0, DOWN, `who there is of "db" in dc2 cannot be known: ${DOWN}`],
    [0, 0, DOWN, `nobody is registered as "db" in dc2, as far as is known: ${DOWN}`],
  ] as const
) {
  test(`lackOf() returns "${words}"`, () => {
    assert.equal(lackOf({ of: '"db" in dc2', registered, usable, failing }), words);
  });
}
