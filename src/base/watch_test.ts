import assert from "node:assert/strict";
import { test } from "node:test";
import { Watch } from "./watch.ts";

test("Watch tells subscribers of later values, in place when they hear", () => {
  const watch = new Watch(1);
  const heard: [number, number][] = [];
  watch.subscribe((value) => heard.push([value, watch.value]));
  assert.deepEqual(heard, []);
  watch.set(2);
  watch.set(2);
  assert.deepEqual(heard, [[2, 2], [2, 2]]);
});

test("Watch stops telling one that unsubscribed, also while it is telling", () => {
  const watch = new Watch(0);
  const heard: string[] = [];
  watch.subscribe((value) => {
    heard.push(`a${value}`);
    if (value === 2) stop();
  });
  const stop = watch.subscribe((value) => heard.push(`b${value}`));
  watch.set(1);
  watch.set(2);
  watch.set(3);
  assert.deepEqual(heard, ["a1", "b1", "a2", "a3"]);
});

test("Watch does not tell the present value to one that subscribes while it is telling", () => {
  const watch = new Watch(0);
  const heard: number[] = [];
  let subscribed = false;
  watch.subscribe(() => {
    if (!subscribed) watch.subscribe((value) => heard.push(value));
    subscribed = true;
  });
  watch.set(1);
  assert.deepEqual(heard, []);
  watch.set(2);
  assert.deepEqual(heard, [2]);
});

test("Watch tells all others when one throws, then passes the first failure on", () => {
  const watch = new Watch(0);
  const heard: number[] = [];
  watch.subscribe(() => {
    throw new Error("first");
  });
  watch.subscribe((value) => heard.push(value));
  watch.subscribe(() => {
    throw new Error("second");
  });
  assert.throws(() => watch.set(5), /first/);
  assert.deepEqual(heard, [5]);
  assert.equal(watch.value, 5);
});

test("Watch passes on whatever was thrown, nothing included", () => {
  const watch = new Watch(0);
  watch.subscribe(() => {
    // deno-lint-ignore no-throw-literal -- that is the case
    throw undefined;
  });
  let caught = false;
  try {
    watch.set(1);
  } catch (error) {
    caught = error === undefined;
  }
  assert.ok(caught);
});

test("Watch never ends with an older value than another subscriber set meanwhile", () => {
  const watch = new Watch(0);
  const heard: number[] = [];
  watch.subscribe((value) => {
    if (value === 1) watch.set(2);
  });
  watch.subscribe((value) => heard.push(value));
  watch.set(1);
  assert.equal(heard.at(-1), 2);
  assert.equal(watch.value, 2);
});
