import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { createAccessLines, LogRings } from "./log_rings.ts";

function rig(bytes = 1 << 16) {
  const clock = new FakeClock();
  const rings = LogRings.create(1, bytes);
  const woken = { times: 0 };
  const lines = createAccessLines({ clock, ring: rings.of(0), wake: () => void woken.times++ });
  const read = () => {
    const into = new Uint8Array(bytes);
    const ring = rings.of(0);
    const length = ring.peek(into);
    ring.drop(length);
    return new TextDecoder().decode(into.subarray(0, length));
  };
  return { clock, rings, lines, woken, read };
}

test("createAccessLines() joins lines, and wakes the writer once for them", async () => {
  const { clock, lines, woken, read } = rig();
  lines.take("one\n");
  lines.take("zwei ä\n");
  assert.equal(read(), "");
  await clock.advance(20);
  assert.equal(read(), "one\nzwei ä\n");
  assert.equal(woken.times, 1);
  await clock.advance(60_000);
  assert.equal(woken.times, 1);
  lines.take("three\n");
  lines.flush();
  assert.equal(read(), "three\n");
});

test("createAccessLines() joins up to 16 KiB", () => {
  const { lines, woken, read } = rig();
  for (let i = 0; i < 17; i++) lines.take(`${"x".repeat(1_023)}\n`);
  assert.equal(woken.times, 1);
  assert.equal(read().length, 16 * 1_024);
});

test("createAccessLines() counts each line without room", () => {
  const { lines, rings, read } = rig(1 << 10);
  lines.take(`${"x".repeat(600)}\n`);
  lines.take(`${"y".repeat(600)}\n`);
  lines.flush();
  assert.equal(rings.lost, 2);
  lines.take("short\n");
  lines.flush();
  assert.equal(read(), "short\n");
});
