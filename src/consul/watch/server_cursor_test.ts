import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../../base/mod.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import {
  type CursorEvent,
  type CursorPosition,
  FIRST,
  type ReadMode,
  step,
} from "./server_cursor.ts";

const at = (index: number, next: ReadMode): CursorPosition => ({ index, next });
const heard = (index: number, more: { lacks: boolean } = { lacks: false }): CursorEvent => ({
  kind: "answer",
  index,
  ...more,
});
const failed = (code: ErrorCode): CursorEvent => ({ kind: "failure", code });
const LACKS = { lacks: true };
const MOVE: CursorEvent = { kind: "move" };

for (
  const [what, before, news, after, then] of [
    ["begins with the leader's answer", FIRST, heard(7), at(7, "wait"), "deliver"],
    ["waits for more", at(7, "wait"), heard(9), at(9, "wait"), "deliver"],
    ["takes a wait that ended without news", at(7, "wait"), heard(7), at(7, "wait"), "deliver"],
    // A restarted server: 200, X-Consul-Index: 1, known leader, nothing in it.
    ["does not believe a lower index", at(7, "wait"), heard(1), at(7, "read"), "ask"],
    [
      "does not believe a lower index that lacks",
      at(7, "wait"),
      heard(1, LACKS),
      at(7, "read"),
      "ask",
    ],
    ["does not believe that something went", at(7, "wait"), heard(9, LACKS), at(7, "read"), "ask"],
    ["does not believe it at the same index", at(7, "wait"), heard(7, LACKS), at(7, "read"), "ask"],
    ["does not believe a wait without index", at(7, "wait"), heard(0), at(7, "read"), "ask"],
    [
      "believes the leader that something went",
      at(7, "read"),
      heard(9, LACKS),
      at(9, "wait"),
      "deliver",
    ],
    [
      "believes the leader that all began anew",
      at(7, "read"),
      heard(3, LACKS),
      at(3, "wait"),
      "deliver",
    ],
    [
      "asks again where nothing can be waited on",
      at(7, "read"),
      heard(0),
      at(0, "read"),
      "deliver",
    ],
    ["asks the leader after a move", at(7, "wait"), MOVE, at(7, "read"), "ask"],
    ["asks the leader after a second move", at(7, "glance"), MOVE, at(7, "read"), "ask"],
    [
      "asks the leader when a wait failed",
      at(7, "wait"),
      failed("agent_failed"),
      at(7, "read"),
      "pause",
    ],
    [
      "glances where there is no leader",
      at(7, "read"),
      failed("agent_failed"),
      at(7, "glance"),
      "ask",
    ],
    ["waits on after a glance", at(7, "glance"), heard(7), at(7, "wait"), "deliver"],
    ["takes news from a glance", at(7, "glance"), heard(9), at(9, "wait"), "deliver"],
    ["does not believe an older glance", at(7, "glance"), heard(5), at(7, "read"), "pause"],
    [
      "does not believe a glance that lacks",
      at(7, "glance"),
      heard(9, LACKS),
      at(7, "read"),
      "pause",
    ],
    ["does not glance twice", at(7, "glance"), failed("agent_failed"), at(7, "read"), "pause"],
    ["never begins with a glance", FIRST, failed("agent_failed"), FIRST, "pause"],
    [
      "does not glance past a refusal",
      at(7, "read"),
      failed("agent_forbidden"),
      at(7, "read"),
      "pause",
    ],
    [
      "does not glance at one that is overloaded",
      at(7, "read"),
      failed("agent_overloaded"),
      at(7, "read"),
      "pause",
    ],
  ] as const
) {
  test(`step() ${what}`, () => {
    assert.deepEqual(step(before, news), { standing: after, then });
  });
}

/** What was seen of three real servers: one killed, an intention written, the dead one started again. */
const RECORDED = fixture("agentless/failover_stale") as readonly { readonly event: string }[];

test("step() follows a recorded failover, and is not misled by the server that comes back", () => {
  let standing = at(44, "wait");
  const hear = (news: CursorEvent) => {
    const next = step(standing, news);
    standing = next.standing;
    return next.then;
  };
  const thens: string[] = [];
  for (const { event } of RECORDED) {
    // Its server is killed, and it goes to the second one, which has no leader but the same index.
    if (event.startsWith("s1 match 0 ECONNRESET")) {
      thens.push(hear(MOVE), hear(failed("agent_failed")), hear(heard(44)));
    }
    const woke = /^s2 match woke \d+ -> (\d+) changed/.exec(event);
    if (woke) thens.push(hear(heard(Number(woke[1]))));
    // Were it moved back at once, and found no leader: what the empty server says is weighed each time.
    const back = /stale match 200 i (\d+) .* (\d+)B \|/.exec(event);
    if (back) {
      standing = { ...standing, next: "glance" };
      const [, index, size] = back.map(Number);
      thens.push(hear(heard(index ?? 0, { lacks: size === 12 })));
    }
  }
  assert.deepEqual(thens, [
    ...["ask", "ask", "deliver"],
    "deliver",
    ...["pause", "pause", "deliver", "deliver"],
  ]);
  assert.deepEqual(standing, at(93, "wait"));
});
