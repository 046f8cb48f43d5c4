import assert from "node:assert/strict";
import { test } from "node:test";
import type { TargetPart } from "../../snapshot/mod.ts";
import { LastResort } from "./last_resort.ts";

const ENDPOINT = { id: "dc1/a/db", host: "10.0.0.1", port: 1, weight: 1 };
const PREVIOUS: TargetPart = {
  version: 1,
  key: "db",
  sni: "db.sni",
  cluster: "db.sni",
  spiffeUris: [],
  connectTimeoutMs: 5_000,
  endpoints: [],
  unhealthy: [],
  lastResort: [ENDPOINT],
  lack: "",
};

function at(monotonicMs: number, before: ReadonlyMap<string, number>): LastResort {
  return new LastResort(before, { monotonicMs, lastResortMs: 300_000 });
}

test("LastResort ends also where its target is not answered for", () => {
  const first = at(1_000, new Map());
  assert.deepEqual(first.ofUnanswered(PREVIOUS).lastResort, [ENDPOINT]);
  assert.equal(first.dueMs, 301_000);
  const just = at(300_999, first.untilMs);
  assert.deepEqual(just.ofUnanswered(PREVIOUS).lastResort, [ENDPOINT]);
  assert.equal(just.dueMs, 301_000, "it does not start again");
  const ended = at(301_000, just.untilMs);
  assert.deepEqual(ended.ofUnanswered(PREVIOUS).lastResort, []);
  assert.equal(ended.dueMs, undefined);
});

test("LastResort starts again where a list turns empty again", () => {
  const { version: _, ...content } = { ...PREVIOUS, lastResort: [] };
  const first = at(0, new Map());
  first.ofUnanswered(PREVIOUS);
  const again = at(200_000, first.untilMs);
  const full = { ...PREVIOUS, endpoints: [ENDPOINT], lastResort: [] };
  assert.deepEqual(again.ofEmpty(content, full).lastResort, [ENDPOINT]);
  assert.equal(again.dueMs, 500_000);
});
