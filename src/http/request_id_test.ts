import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fields } from "./head.ts";
import { RequestIds } from "./forwarded.ts";

test("RequestIds.next() makes unique UUIDs of version 4", () => {
  const ids = new RequestIds();
  const seen = new Set<string>();
  for (let i = 0; i < 1000; i++) {
    const id = ids.next();
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    seen.add(id);
  }
  assert.equal(seen.size, 1000);
});

test("RequestIds.next() uses the random bytes in order", () => {
  const ids = new RequestIds((bytes) => bytes.forEach((_, i) => bytes[i] = i));
  assert.equal(ids.next(), "00010203-0405-4607-8809-0a0b0c0d0e0f");
  assert.equal(ids.next(), "10111213-1415-4617-9819-1a1b1c1d1e1f");
});

test("RequestIds.ensure() adds an id, and keeps a received one", () => {
  const ids = new RequestIds((bytes) => bytes.fill(0xff));
  const fields: Fields = ["a", "1", "A"];
  const id = ids.ensure(fields);
  assert.equal(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
  assert.deepEqual(fields, ["a", "1", "A", "x-request-id", id, "x-request-id"]);
  assert.equal(ids.ensure(["x-request-id", "mine", "X-Request-ID"]), "mine");
  assert.equal(ids.ensure(["x-request-id", "", "X-Request-ID"]), id);
});
