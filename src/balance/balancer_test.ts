import assert from "node:assert/strict";
import { test } from "node:test";
import { sameBalancing } from "./pool.ts";
import type { LoadBalancing } from "./types.ts";

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
