import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentLink } from "../http/link.ts";
import { AgentCursor } from "./watch_cursor.ts";

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
  test(`AgentStand ${what}`, () => {
    const stand = new AgentCursor(kind, new AgentLink());
    for (const cursor of cursors) assert.equal(stand.answered({ cursor, lacks: true }), true);
    assert.deepEqual(stand.ask(), asked);
  });
}

test("AgentStand begins again after a failure, or when a connection broke, once", () => {
  const link = new AgentLink();
  const stand = new AgentCursor("index", link);
  stand.answered({ cursor: "9", lacks: false });
  assert.equal(stand.failed(), false);
  assert.deepEqual(stand.ask(), {});
  stand.answered({ cursor: "9", lacks: false });
  link.lost();
  assert.deepEqual(stand.ask(), {});
  stand.answered({ cursor: "9", lacks: false });
  assert.deepEqual(stand.ask(), { cursor: "9" });
});
