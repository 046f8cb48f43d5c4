import test from "node:test";
import assert from "node:assert/strict";
import { FakeClock } from "../../test/kit/clock.ts";
import { ConnectionRecord } from "./connection.ts";
import { type Handshake, handshakeLimit, Handshakes, sourceOf } from "./handshakes.ts";

function setUp(limit: number) {
  const clock = new FakeClock();
  const handshakes = new Handshakes({ clock, limit });
  /** Names of those that had to go, with why. */
  const gone: string[] = [];
  const begin = (name: string, remote: string) => {
    const record = new ConnectionRecord({
      ...{ direction: "inbound", listener: "inbound", remote, openedMs: clock.monotonic() },
    });
    const handshake: Handshake = handshakes.begin({
      record,
      end(code, reason) {
        assert.equal(code, "handshake_crowded_out");
        gone.push(`${name}: ${reason}`);
        handshake.over();
      },
    });
    return handshake;
  };
  return { clock, handshakes, gone, begin };
}

test("Handshakes begin() lets the oldest go when all places are taken", () => {
  const { begin, gone, handshakes, clock } = setUp(4);
  const [first] = [begin("a", "10.0.0.1:1"), begin("b", "10.0.0.2:1")];
  begin("c", "10.0.0.3:1");
  begin("d", "10.0.0.4:1");
  assert.deepEqual(gone, []);
  clock.advanceNow(100);
  first?.over();
  assert.equal(begin("e", "10.0.0.5:1").strained, false);
  assert.deepEqual(gone, []);
  assert.equal(begin("f", "10.0.0.6:1").strained, false);
  assert.deepEqual(gone, ["b: 4 handshakes are under way, and this was the oldest"]);
  assert.equal(handshakes.size, 4);
});

test("Handshakes begin() says when one had to go that had not had its time", () => {
  const { begin, clock } = setUp(2);
  begin("a", "10.0.0.1:1");
  clock.advanceNow(50);
  begin("b", "10.0.0.2:1");
  assert.equal(begin("c", "10.0.0.3:1").strained, true);
  clock.advanceNow(100);
  assert.equal(begin("d", "10.0.0.4:1").strained, false);
});

test("Handshakes begin() lets an address crowd out only itself", () => {
  const { begin, gone, handshakes } = setUp(8);
  begin("other", "10.0.0.9:1");
  for (let port = 1; port <= 1_000; port++) begin(`${port}`, `10.0.0.1:${port}`);
  assert.equal(handshakes.size, 5);
  assert.equal(gone.length, 996);
  assert.equal(gone[0], "1: 4 handshakes of its address are under way, and this was their oldest");
  assert.ok(!gone.some((line) => line.startsWith("other")));
});

test("Handshakes remembers no address that does not shake hands", () => {
  const { begin, handshakes, gone } = setUp(2);
  const handshake = begin("a", "10.0.0.1:1");
  handshake.over();
  handshake.over();
  assert.equal(handshakes.size, 0);
  begin("b", "10.0.0.1:2");
  begin("c", "10.0.0.2:1");
  assert.deepEqual(gone, []);
});

for (
  const [remote, want] of [
    ["10.1.2.3:4711", "10.1.2.3"],
    ["[2001:db8:1:2:3:4:5:6]:4711", "[2001:db8:1:2::/64]"],
    ["[2001:db8::1]:4711", "[2001:db8:0:0::/64]"],
    ["[2001:db8:1:2::]:4711", "[2001:db8:1:2::/64]"],
    ["[::1]:4711", "[0:0:0:0::/64]"],
    ["[fe80::1:2:3:4]:1", "[fe80:0:0:0::/64]"],
    ["[::ffff:10.1.2.3]:4711", "[::ffff:10.1.2.3]"],
    ["unix", "unix"],
  ] as const
) {
  test(`sourceOf() ${remote}: ${want}`, () => assert.equal(sourceOf(remote), want));
}

for (const [connections, want] of [[4, 16], [500, 125], [65_536, 8_192]] as const) {
  test(`handshakeLimit() of ${connections} connections: ${want}`, () =>
    assert.equal(handshakeLimit(connections), want));
}
