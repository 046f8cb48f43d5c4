import assert from "node:assert/strict";
import { test } from "node:test";
import { complaintOf, needsRoots } from "./tls_checks.ts";
import type { PeerCheck, TlsMaterial } from "./port.ts";

for (
  const [peerCheck, roots, needed] of [
    ["checked", 0, true],
    ["checked", 21, true],
    ["shown", 0, false],
    ["shown", 1, true],
    ["shown", 20, true],
    ["shown", 21, false],
    ["ignored", 1, false],
  ] as const
) {
  test(`needsRoots() of ${roots} roots and a peer that is ${peerCheck}: ${needed}`, () => {
    const rootPems = Array.from({ length: roots }, () => "root");
    assert.equal(needsRoots({ peerCheck, rootPems } as unknown as TlsMaterial), needed);
  });
}

test("complaintOf() depends on the requested check", () => {
  const of = (check: PeerCheck, leaf?: Uint8Array) => complaintOf(check, leaf, "expired");
  const leaf = Uint8Array.of(1);
  assert.deepEqual([of("checked", leaf), of("shown", leaf), of("ignored", leaf)], [
    "expired",
    "",
    "",
  ]);
  assert.deepEqual([of("checked"), of("shown"), of("ignored")], [
    "no certificate was presented",
    "no certificate was presented",
    "",
  ]);
});
