import test from "node:test";
import assert from "node:assert/strict";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { ConnectionRecord } from "../observe/connection_record.ts";
import { handshakeLimit, type HandshakeOwner, Handshakes } from "./handshakes.ts";

function setUp(limit: number) {
  const clock = new FakeClock();
  const handshakes = new Handshakes({ clock, limit });
  /** Names and reasons of ended handshakes. */
  const gone: string[] = [];
  const begin = (name: string, remote: string) => {
    const record = new ConnectionRecord(
      { direction: "inbound", name: "inbound", destination: "", http: null },
      remote,
      clock.monotonic(),
    );
    const owner: HandshakeOwner = {
      record,
      end(code, reason) {
        assert.equal(code, "handshake_crowded_out");
        gone.push(`${name}: ${reason}`);
        handshakes.over(owner);
      },
    };
    return { crowded: handshakes.begin(owner), over: () => handshakes.over(owner) };
  };
  return { clock, handshakes, gone, begin };
}

test("Handshakes.begin() ends the oldest handshake at the limit", () => {
  const { begin, gone, handshakes, clock } = setUp(4);
  const [first] = [begin("a", "10.0.0.1:1"), begin("b", "10.0.0.2:1")];
  begin("c", "10.0.0.3:1");
  begin("d", "10.0.0.4:1");
  clock.advanceNow(1_000);
  first?.over();
  begin("e", "10.0.0.5:1");
  assert.deepEqual(gone, []);
  assert.equal(begin("f", "10.0.0.6:1").crowded, false);
  assert.deepEqual(gone, ["b: 4 handshakes are under way, and others began later"]);
  assert.equal(handshakes.size, 4);
});

test("Handshakes.begin() ends no handshake before its fair time, up to twice the limit", () => {
  const { begin, gone, handshakes, clock } = setUp(4);
  const crowded = Array.from({ length: 10 }, (_, index) => begin(`${index}`, `10.0.0.${index}:1`))
    .map((handshake) => handshake.crowded);
  assert.deepEqual(crowded, [...Array(4).fill(false), ...Array(6).fill(true)]);
  assert.equal(gone.length, 2);
  assert.equal(handshakes.size, 8);
  clock.advanceNow(1_000);
  begin("late 1", "10.0.1.1:1");
  assert.equal(gone.length, 4, "two at a time");
  for (let port = 2; port <= 4; port++) begin(`late ${port}`, `10.0.1.${port}:1`);
  assert.equal(handshakes.size, 4, "those above the limit have gone");
});

test("Handshakes.begin() ends a handshake of the same address above its share", () => {
  const { begin, gone, handshakes, clock } = setUp(8);
  const other = (count: number) => begin(`other ${count}`, `10.0.0.9:${count}`);
  other(1);
  for (let port = 1; port <= 1_000; port++) {
    begin(`${port}`, `10.0.0.1:${port}`);
    if (port % 100 === 0) other(port).over();
  }
  assert.ok(handshakes.size <= 16);
  clock.advanceNow(1_000);
  other(2);
  assert.equal(gone[0], "1: 8 handshakes are under way, and others began later");
  assert.ok(gone.length > 900);
  assert.ok(!gone.some((line) => line.startsWith("other")));
});

test("Handshakes.begin() ends the oldest handshake of an address at its share", () => {
  const { begin, gone, clock } = setUp(4);
  for (const name of ["a", "b"]) begin(name, `10.0.0.${name === "a" ? 1 : 2}:1`);
  for (const name of ["c", "d"]) begin(name, "10.0.0.3:1");
  clock.advanceNow(1_000);
  begin("e", "10.0.0.3:2");
  assert.deepEqual(gone.map((line) => line[0]), ["c"]);
});

test("Handshakes keeps no address without a handshake", () => {
  const { begin, handshakes, gone } = setUp(2);
  const handshake = begin("a", "10.0.0.1:1");
  handshake.over();
  handshake.over();
  assert.equal(handshakes.size, 0);
  begin("b", "10.0.0.1:2");
  assert.equal(begin("c", "10.0.0.2:1").crowded, false);
  assert.deepEqual(gone, []);
});

for (const [connections, want] of [[4, 24], [500, 125], [65_536, 8_192]] as const) {
  test(`handshakeLimit() of ${connections} connections: ${want}`, () =>
    assert.equal(handshakeLimit(connections), want));
}
