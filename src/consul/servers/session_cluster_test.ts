import assert from "node:assert/strict";
import { test } from "node:test";
import { A, B, rootsOf, SessionRig } from "../../../test/kit/consul/session_rig.ts";
import { WATCH_ROOTS } from "./methods.ts";

const OURS = "11111111-0000-0000-0000-000000000000.consul";
const THEIRS = "22222222-0000-0000-0000-000000000000.consul";

test("Servers uses a server of our cluster in place of one of another cluster", async () => {
  using rig = new SessionRig();
  const emptied = rig.servers.add(A);
  rig.servers.add(B).answer(WATCH_ROOTS.path, rootsOf(OURS.toUpperCase()));
  emptied.answer(WATCH_ROOTS.path, rootsOf(OURS));
  emptied.knows(A, B);
  const session = rig.start();
  await rig.run(100);
  assert.deepEqual(rig.moves, [A], "without a pinned cluster any server is used");
  rig.cluster.set({ trustDomain: OURS });
  emptied.answer(WATCH_ROOTS.path, rootsOf(THEIRS));
  emptied.kill();
  emptied.state = "up";
  await rig.run(60_000);
  assert.equal(session.current?.host, B);
  assert.deepEqual(rig.moves, [A, B], "no stream or call used the foreign server");
});

test("Servers logs a foreign server once, and uses the server when it belongs to our cluster again", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(WATCH_ROOTS.path, rootsOf(THEIRS));
  rig.token.value = "";
  rig.cluster.set({ trustDomain: OURS });
  const session = rig.start();
  rig.follow(session);
  await rig.run(30_000);
  assert.equal(session.current, undefined);
  assert.deepEqual(rig.messages("error"), ["consul server belongs to another cluster"]);
  assert.deepEqual(rig.messages("warn"), ["no consul server can be used"]);
  assert.match(session.status.lastFailure, new RegExp(`^${A}: .*${THEIRS}.*${OURS}`));
  assert.deepEqual(rig.roots, [], "its roots are not delivered");
  one.answer(WATCH_ROOTS.path, rootsOf(OURS));
  await rig.run(15_000);
  assert.deepEqual(rig.moves, [A]);
  assert.deepEqual(rig.roots, [OURS]);
});

for (
  const [what, code, taken] of [
    ["refuses to show its roots", 7, [A]],
    ["has no CA yet", 9, []],
    ["does not answer", 14, []],
  ] as const
) {
  test(`Servers ${taken.length ? "uses" : "does not use"} a server that ${what}`, async () => {
    using rig = new SessionRig();
    rig.servers.add(A).answer(WATCH_ROOTS.path, (call) => call.end(code, "no"));
    rig.cluster.set({ trustDomain: OURS });
    rig.start();
    await rig.run(5_000);
    assert.deepEqual(rig.moves, taken);
  });
}
