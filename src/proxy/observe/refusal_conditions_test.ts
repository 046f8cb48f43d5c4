import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import type { RefusalView } from "./view.ts";
import { RefusalConditions } from "./refusal_conditions.ts";

const REFUSAL: RefusalView = {
  at: 0,
  direction: "outbound",
  caller: "web",
  listener: "db",
  code: "limit_reached",
  rule: "",
  deniedBy: "",
  path: "",
  status: 0,
  count: 1,
};

function rig() {
  const clock = new FakeClock();
  const told: string[] = [];
  const refusals = new RefusalConditions(clock, {
    began(_key, { kind, text }) {
      told.push(`${kind} ${text}`);
      return true;
    },
    ended: (_key, event, refused) => void told.push(`${event?.text}: ${refused}`),
  });
  return { clock, told, refused: refusals.refused };
}

for (
  const [name, refusal, reason, want] of [
    [
      "a full limit",
      {},
      "limits.max_connections is 2",
      ["limit connections to db are refused with limit_reached: limits.max_connections is 2"],
    ],
    [
      "an application that refuses requests",
      { direction: "inbound", listener: "inbound", code: "local_refused", path: "/a" },
      "",
      ["endpoint requests at inbound fail with local_refused"],
    ],
    ["the other side's denial", { code: "intention_denied", path: "/", deniedBy: "db" }, "", [
      "intention requests to db are refused with intention_denied by db",
    ]],
    ["what is probably a denial", { code: "refused_by_peer" }, "probably refused", [
      "intention connections to db are refused with refused_by_peer: probably refused",
    ]],
    ["a token that the other side misses", { code: "unauthenticated", deniedBy: "db" }, "", [
      "intention connections to db are refused with unauthenticated by db",
    ]],
    ["our own denial", { direction: "inbound", code: "intention_denied" }, "", []],
    ["a token that is missing", { code: "unauthenticated" }, "", []],
  ] as const satisfies readonly (readonly [
    string,
    Partial<RefusalView>,
    string,
    readonly string[],
  ])[]
) {
  test(`RefusalConditions begins with ${name}`, () => {
    const { told, refused } = rig();
    refused({ ...REFUSAL, ...refusal }, reason);
    assert.deepEqual(told, want);
  });
}

test("RefusalConditions ends after ten seconds without a refusal, with their number", async () => {
  const { clock, told, refused } = rig();
  for (let second = 0; second < 30; second++) {
    refused(REFUSAL, "");
    await clock.advance(1_000);
  }
  assert.equal(told.length, 1);
  await clock.advance(20_000);
  assert.deepEqual(told.slice(1), ["no more connections to db end with limit_reached: 30"]);
  assert.equal(clock.pending, 0);
  refused(REFUSAL, "");
  assert.equal(told.length, 3);
});

test("RefusalConditions bounds what it follows", async () => {
  const { clock, told, refused } = rig();
  for (let at = 0; at < 1_000; at++) refused({ ...REFUSAL, listener: `db-${at}` }, "");
  assert.equal(told.length, 100);
  await clock.advance(20_000);
  assert.equal(told.length, 200);
});
