import assert from "node:assert/strict";
import { test } from "node:test";
import { EndpointRecord } from "./types.ts";
import { Balancer } from "./balancer.ts";
import { Group } from "./group.ts";

const record = (id: string) =>
  new EndpointRecord(id, { id, host: "10.0.0.1", port: 1, weight: 1 }, false);

/** Records the numbers of usable endpoints and of members in each update. */
class RecordingBalancer extends Balancer {
  readonly updates: string[] = [];
  constructor() {
    super(() => 0);
  }
  override update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    this.updates.push(`${usable.length} of ${members.length}`);
  }
  pick(): undefined {}
}

test("Group updates its balancer once after a change, at the next use", () => {
  const [a, b] = [record("a"), record("b")];
  const recorded = new RecordingBalancer();
  const group = new Group(recorded);
  assert.equal(group.usable(0).length, 0);
  assert.deepEqual(recorded.updates, []);
  group.setMembers([a, b]);
  for (const nowMs of [0, 0, 1]) assert.equal(group.usable(nowMs).length, 2);
  assert.deepEqual(recorded.updates.splice(0), ["2 of 2"]);
  a.ejected = true;
  a.ejectedUntilMs = 10;
  group.invalidate();
  for (const nowMs of [1, 9]) assert.deepEqual(group.usable(nowMs), [b]);
  assert.deepEqual(recorded.updates.splice(0), ["1 of 2"]);
  for (const nowMs of [10, 11, 12]) assert.equal(group.usable(nowMs).length, 2);
  assert.deepEqual(recorded.updates.splice(0), ["2 of 2"]);
  const next = new RecordingBalancer();
  group.setBalancer(next);
  for (const nowMs of [12, 13]) group.usable(nowMs);
  assert.deepEqual([recorded.updates, next.updates], [[], ["2 of 2"]]);
});

test("Group.firstEjected() returns the endpoint due back first, and the first of equal ones", () => {
  const members = ["a", "b", "c", "d"].map(record);
  const [a, b, c, d] = members as [EndpointRecord, EndpointRecord, EndpointRecord, EndpointRecord];
  const group = new Group(new RecordingBalancer());
  group.setMembers(members);
  assert.equal(group.firstEjected(0, undefined), undefined);
  for (const [member, untilMs] of [[b, 20], [c, 10], [d, 10]] as const) {
    member.ejected = true;
    member.ejectedUntilMs = untilMs;
  }
  group.invalidate();
  assert.deepEqual(group.usable(0), [a]);
  assert.equal(group.ejected, 3);
  assert.equal(group.firstEjected(0, undefined), c);
  assert.equal(group.firstEjected(0, new Set([c])), d);
  assert.equal(group.firstEjected(0, new Set([c, d])), b);
  assert.equal(group.firstEjected(0, new Set(members)), undefined);
});
