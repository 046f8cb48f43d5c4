import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../../base/mod.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { ConsulReach } from "./consul_reach.ts";
import {
  AgentCursor,
  type CursorEvent,
  type CursorPosition,
  FIRST,
  type ReadMode,
  step,
} from "./cursors.ts";

const at = (index: number, next: ReadMode): CursorPosition => ({ index, next });
const answer = (index: number, more: { lacks: boolean } = { lacks: false }): CursorEvent => ({
  kind: "answer",
  index,
  ...more,
});
const failed = (code: ErrorCode): CursorEvent => ({ kind: "failure", code });
const LACKS = { lacks: true };
const MOVE: CursorEvent = { kind: "move" };

for (
  const [what, before, news, after, then] of [
    ["begins with the leader's answer", FIRST, answer(7), at(7, "wait"), "deliver"],
    ["waits for more", at(7, "wait"), answer(9), at(9, "wait"), "deliver"],
    ["takes a wait that ended without news", at(7, "wait"), answer(7), at(7, "wait"), "deliver"],
    // A restarted server: 200, X-Consul-Index: 1, known leader, empty.
    ["does not believe a lower index", at(7, "wait"), answer(1), at(7, "read"), "ask"],
    [
      "does not believe a lower index that lacks an item",
      at(7, "wait"),
      answer(1, LACKS),
      at(7, "read"),
      "ask",
    ],
    ["does not believe that an item went", at(7, "wait"), answer(9, LACKS), at(7, "read"), "ask"],
    [
      "does not believe it at the same index",
      at(7, "wait"),
      answer(7, LACKS),
      at(7, "read"),
      "ask",
    ],
    ["does not believe a wait without index", at(7, "wait"), answer(0), at(7, "read"), "ask"],
    [
      "believes the leader that an item went",
      at(7, "read"),
      answer(9, LACKS),
      at(9, "wait"),
      "deliver",
    ],
    [
      "believes the leader with a lower index and an item missing",
      at(7, "read"),
      answer(3, LACKS),
      at(3, "wait"),
      "deliver",
    ],
    [
      "asks again where the answer has no index",
      at(7, "read"),
      answer(0),
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
    ["waits on after a glance", at(7, "glance"), answer(7), at(7, "wait"), "deliver"],
    ["takes news from a glance", at(7, "glance"), answer(9), at(9, "wait"), "deliver"],
    ["does not believe an older glance", at(7, "glance"), answer(5), at(7, "read"), "pause"],
    [
      "does not believe a glance that lacks an item",
      at(7, "glance"),
      answer(9, LACKS),
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
      "does not glance after agent_overloaded",
      at(7, "read"),
      failed("agent_overloaded"),
      at(7, "read"),
      "pause",
    ],
  ] as const
) {
  test(`step() ${what}`, () => {
    assert.deepEqual(step(before, news), { position: after, then });
  });
}

/** A recording of three real servers: one is killed, an intention is written, the dead one is started again. */
const RECORDED = fixture("agentless/failover_stale") as readonly { readonly event: string }[];

test("step() follows a recorded failover, and does not believe the restarted server's old state", () => {
  let position = at(44, "wait");
  const take = (event: CursorEvent) => {
    const next = step(position, event);
    position = next.position;
    return next.then;
  };
  const thens: string[] = [];
  for (const { event } of RECORDED) {
    // Its server is killed, and it goes to the second one, which has no leader but the same index.
    if (event.startsWith("s1 match 0 ECONNRESET")) {
      thens.push(take(MOVE), take(failed("agent_failed")), take(answer(44)));
    }
    const woke = /^s2 match woke \d+ -> (\d+) changed/.exec(event);
    if (woke) thens.push(take(answer(Number(woke[1]))));
    // As if the watch moved back at once without a leader: each answer of the empty server is judged.
    const back = /stale match 200 i (\d+) .* (\d+)B \|/.exec(event);
    if (back) {
      position = { ...position, next: "glance" };
      const [, index, size] = back.map(Number);
      thens.push(take(answer(index ?? 0, { lacks: size === 12 })));
    }
  }
  assert.equal(thens.join(" "), "ask ask deliver deliver pause pause deliver deliver");
  assert.deepEqual(position, at(93, "wait"));
});

for (
  const [what, kind, cursors, asked] of [
    ["begins with nothing", "index", [], {}],
    ["goes on from an index", "index", ["9"], { cursor: "9" }],
    ["goes on from a higher index", "index", ["9", "10"], { cursor: "10" }],
    ["begins again after an index that fell", "index", ["10", "9"], {}],
    ["begins again after an answer without one", "index", ["9", undefined], {}],
    // Consul's hashes may be digits alone.
    ["goes on from any hash", "hash", ["10", "9"], { cursor: "9" }],
    ["begins again after an empty hash", "hash", ["10", ""], {}],
  ] as const
) {
  test(`AgentCursor ${what}`, () => {
    const agentCursor = new AgentCursor(kind, new ConsulReach());
    for (const cursor of cursors) assert.equal(agentCursor.answered({ cursor, lacks: true }), true);
    assert.deepEqual(agentCursor.next(), asked);
  });
}

test("AgentCursor begins again once after a failure or a broken connection", () => {
  const reach = new ConsulReach();
  const agentCursor = new AgentCursor("index", reach);
  agentCursor.answered({ cursor: "9", lacks: false });
  assert.equal(agentCursor.failed(), false);
  assert.deepEqual(agentCursor.next(), {});
  agentCursor.answered({ cursor: "9", lacks: false });
  reach.lost();
  assert.deepEqual(agentCursor.next(), {});
  agentCursor.answered({ cursor: "9", lacks: false });
  assert.deepEqual(agentCursor.next(), { cursor: "9" });
});
