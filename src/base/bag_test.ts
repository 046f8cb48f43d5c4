import assert from "node:assert/strict";
import { test } from "node:test";
import { Bag, NO_PLACE } from "./bag.ts";

test("Bag holds added members until they are deleted", () => {
  const bag = new Bag<{ name: string; place: number }>();
  const [a, b, c] = ["a", "b", "c"].map((name) => ({ name, place: NO_PLACE }));
  assert.ok(a && b && c);
  const names = () => bag.all().map(({ name }) => name).sort().join("");
  for (const member of [a, b, c]) bag.add(member);
  assert.deepEqual([names(), bag.size], ["abc", 3]);
  bag.delete(a);
  assert.deepEqual([names(), bag.size], ["bc", 2]);
  bag.delete(a);
  bag.delete(c);
  assert.deepEqual([names(), bag.size], ["b", 1]);
  bag.add(a);
  bag.delete(b);
  bag.delete(a);
  assert.deepEqual([names(), bag.size], ["", 0]);
});
