import assert from "node:assert/strict";
import { test } from "node:test";
import { DialWindow } from "./target_group.ts";

test("DialWindow.enter() starts as many as fit, and the others in order as places become free", () => {
  const window = new DialWindow(2);
  const started: number[] = [];
  const leave = [1, 2, 3, 4].map((name) => window.enter(() => started.push(name)));
  assert.deepEqual(started, [1, 2]);
  leave[1]?.();
  assert.deepEqual(started, [1, 2, 3]);
  leave[0]?.();
  assert.deepEqual(started, [1, 2, 3, 4]);
});

test("DialWindow.enter() skips attempts that stopped waiting", () => {
  const window = new DialWindow(1);
  const started: number[] = [];
  const leave = [1, 2, 3].map((name) => window.enter(() => started.push(name)));
  leave[1]?.();
  leave[0]?.();
  assert.deepEqual(started, [1, 3]);
});

test("DialWindow.enter() frees a place once, however often it is left", () => {
  const window = new DialWindow(1);
  const started: number[] = [];
  const leave = [1, 2, 3].map((name) => window.enter(() => started.push(name)));
  leave[0]?.();
  leave[0]?.();
  assert.deepEqual(started, [1, 2]);
});
