import assert from "node:assert/strict";
import test from "node:test";
import { HeldBytes } from "../held_bytes.ts";
import { SharedWindow } from "./shared_window.ts";

const MB = 1 << 20;
const SOME = MB / 8;

/** Uses and frees octets in small parts, `everyMs` for each megabyte. Returns the increments. */
function use(window: SharedWindow, megabytes: number, everyMs: number, from = 0): number[] {
  const increments: number[] = [];
  for (let at = 0; at < megabytes * 8; at++) {
    window.left -= SOME;
    assert.ok(window.left >= 0);
    const more = window.free(SOME, from + Math.floor(at / 8 * everyMs));
    if (more > 0) increments.push(more);
  }
  return increments;
}

test("free() gives back half a window at a time, and keeps its size at a slow pace", () => {
  const window = new SharedWindow(MB, new HeldBytes(64 * MB));
  assert.deepEqual(use(window, 2, 1_000), [MB / 2, MB / 2, MB / 2, MB / 2]);
  assert.equal(window.left, MB);
});

test("free() doubles a window that is used up fast, up to a limit, and shrinks it again", () => {
  const held = new HeldBytes(64 * MB);
  const window = new SharedWindow(MB, held);
  use(window, 24, 1);
  assert.equal(window.left, 16 * MB);
  assert.deepEqual(use(window, 16, 1_000, 100), [MB / 2, MB / 2]);
  assert.equal(window.left, MB);
  // The borrowed octets were returned.
  assert.ok(held.lend(64 * MB));
});

test("free() grows windows within the common limit, not while much is held, and end() returns the growth", () => {
  const held = new HeldBytes(16 * MB);
  const [one, other] = [new SharedWindow(MB, held), new SharedWindow(MB, held)];
  use(one, 24, 1);
  use(other, 24, 1);
  assert.deepEqual([one.left, other.left], [16 * MB, 2 * MB]);
  one.end();
  use(other, 24, 1, 24);
  assert.ok(other.left >= 15 * MB, String(other.left));
  held.open("caller").hold(3 * MB);
  use(other, 32, 1, 48);
  assert.ok(other.left <= MB, String(other.left));
});
