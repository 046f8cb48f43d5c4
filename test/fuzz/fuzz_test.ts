import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../../src/base/mod.ts";
import { rounds } from "../kit/clock/long.ts";
import { fuzz, type FuzzTarget, loadTargets, refuses } from "./fuzz.ts";

/**
 * The same damage every time, to the same inputs but for keys and signatures that some targets make
 * anew; `deno task fuzz` goes further.
 */
const ITERATIONS = rounds("inputs for each fuzz target", { few: 100, all: 1_000 });

for (const target of await loadTargets()) {
  test(`fuzz target ${target.name} holds for ${ITERATIONS} inputs`, async () => {
    const { iterations } = await fuzz(target, { seed: 1, iterations: ITERATIONS });
    assert.equal(iterations, ITERATIONS);
  });
}

const NAIVE: FuzzTarget = {
  name: "naive",
  corpus: [new TextEncoder().encode("hello")],
  run(input) {
    if (input.length > 8) throw new RangeError("too long for me");
  },
};

test("fuzz() finds an input that breaks a target, and repeats it from seed and iteration", async () => {
  const messageFrom = async (options: { from?: number; iterations: number }) => {
    const failed = await fuzz(NAIVE, { seed: 7, ...options }).then(
      () => undefined,
      (error) => error,
    );
    assert.ok(failed instanceof Error);
    return failed.message;
  };
  const message = await messageFrom({ iterations: 1000 });
  const from = Number(/-seed 7 -from (\d+)/.exec(message)?.[1]);
  assert.match(message, /too long for me/);
  assert.equal(await messageFrom({ from, iterations: 1 }), message);
});

test("fuzz() reports a target that takes too long", async () => {
  const slow: FuzzTarget = {
    ...NAIVE,
    limitMs: 1,
    run() {
      for (const startMs = performance.now(); performance.now() - startMs < 3;);
    },
  };
  await assert.rejects(fuzz(slow, { seed: 1, iterations: 1 }), /limit 1 ms/);
});

test("refuses() lets only the codes it is given pass", () => {
  const fail = () => {
    throw new ProxyError("identity_invalid", "x");
  };
  assert.equal(refuses(["identity_invalid"], fail), undefined);
  assert.throws(() => refuses(["credentials_invalid"], fail), ProxyError);
  assert.equal(refuses([], () => 1), 1);
});
