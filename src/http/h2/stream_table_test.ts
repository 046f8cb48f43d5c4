import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamTable } from "./stream_table.ts";

test("StreamTable agrees with a Map", () => {
  const table = new StreamTable<{ id: number }>();
  const map = new Map<number, { id: number }>();
  let seed = 7;
  const random = (below: number) => (seed = Math.imul(seed, 48271) >>> 1) % below;
  let nextId = 1;
  for (let step = 0; step < 20_000; step++) {
    // Many streams at a time, then few again.
    const most = step % 4_000 < 2_000 ? 500 : 4;
    if (map.size < most && random(3) > 0) {
      const stream = { id: nextId };
      nextId += 2 * (1 + (random(5) === 0 ? random(5_000) : 0));
      table.add(stream.id, stream);
      map.set(stream.id, stream);
    } else {
      const ids = [...map.keys()];
      const id = ids[random(Math.max(1, ids.length))] ?? 0;
      table.delete(id);
      map.delete(id);
    }
    const id = random(nextId + 2);
    assert.equal(table.get(id), map.get(id));
    assert.equal(table.size, map.size);
  }
  for (const [id, stream] of map) assert.equal(table.get(id), stream);
  assert.deepEqual(table.all(), [...map.values()]);
});
