import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../base/mod.ts";
import { ServerList } from "./server_search.ts";

function listOf(...hosts: string[]): ServerList {
  const list = new ServerList(seededRandom(1));
  list.add(hosts);
  return list;
}

test("ServerList picks servers at random with equal chance", () => {
  const list = listOf("a", "b", "c");
  const counts = new Map<string | undefined, number>();
  for (let turn = 0; turn < 3_000; turn++) {
    const host = list.pick(0);
    counts.set(host, (counts.get(host) ?? 0) + 1);
  }
  for (const host of ["a", "b", "c"]) assert.ok((counts.get(host) ?? 0) > 850, host);
});

test("ServerList avoids a failed server for a pause that grows with each failure", () => {
  const list = listOf("a", "b");
  list.failed("a", 0);
  for (let turn = 0; turn < 20; turn++) assert.equal(list.pick(0), "b");
  list.failed("b", 0);
  assert.equal(list.pick(0), undefined);
  const pauses = Array.from({ length: 12 }, (_, turn) => {
    list.failed("a", 0);
    list.failed("b", 0);
    return [turn, list.waitMs(0)] as const;
  });
  for (const [turn, waitMs] of pauses) {
    const limitMs = Math.min(10_000, 500 * 1.5 ** (turn + 1));
    assert.ok(waitMs >= limitMs / 2 && waitMs <= limitMs, `${turn}: ${waitMs}`);
  }
  assert.equal(list.waitMs(20_000), 0);
  assert.ok(list.pick(20_000));
});

test("ServerList resets the failures of a server that has served, not of one that is listed again", () => {
  const list = listOf("a");
  for (let turn = 0; turn < 10; turn++) list.failed("a", 0);
  list.replace(["a", "b"]);
  list.add(["a"]);
  assert.equal(list.pick(0), "b");
  list.replace(["a"]);
  assert.ok(list.waitMs(0) > 4_000);
  list.proved("a");
  list.failed("a", 60_000);
  assert.ok(list.waitMs(60_000) <= 500);
});

test("ServerList ignores servers that are not listed, and waits for ever where the list is empty", () => {
  const list = listOf("a");
  list.add(["b"]);
  assert.deepEqual(list.hosts, ["a", "b"]);
  list.replace(["c"]);
  list.failed("a", 0);
  list.proved("a");
  assert.deepEqual(list.hosts, ["c"]);
  const none = listOf();
  assert.deepEqual([none.pick(0), none.waitMs(0)], [undefined, Infinity]);
});
