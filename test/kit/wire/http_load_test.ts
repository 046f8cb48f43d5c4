import assert from "node:assert/strict";
import { test } from "node:test";
import { assertExactlyOnce, HttpLoad } from "./http_load.ts";
import { RequestCounts, startCountingOrigin } from "./http_origin.ts";
import { answerOf, startRawOrigin } from "./http_raw.ts";

for (
  const [protocol, clients] of [
    ["http", { keptAlive: 2, shortLived: 1 }],
    ["http2", { keptAlive: 0, shortLived: 0, http2: 1 }],
  ] as const
) {
  test(`HttpLoad counts each request once where nothing goes wrong, over ${protocol}`, async () => {
    await using origin = await startCountingOrigin({ protocol });
    const load = new HttpLoad(origin, origin.counts, { ...clients, pauseMs: 0 });
    const result = await load.stop({ atLeast: 50 });
    assertExactlyOnce(result, { atLeast: 50 });
    assert.equal(origin.counts.total, result.exchanges);
  });
}

test("HttpLoad notices lost, doubled and invented requests", async () => {
  const counts = new RequestCounts();
  let asked = 0;
  await using origin = await startRawOrigin(({ head, body }, socket) => {
    const path = head.split(" ")[1] ?? "";
    switch (asked++) {
      case 0:
        socket.destroy();
        return undefined;
      case 1:
        return answerOf("other");
      case 2:
        return answerOf(body);
      default:
        counts.seen(path);
        counts.seen(path);
        return answerOf(body);
    }
  });
  const load = new HttpLoad(origin, counts, { keptAlive: 1, shortLived: 0, pauseMs: 0 });
  const result = await load.stop({ atLeast: 3 });
  assert.equal(result.errors, 2);
  assert.equal(result.invented, 1);
  assert.ok(result.repeated.length >= 2);
  assert.throws(() => assertExactlyOnce(result, { atLeast: 1 }), /2 errors.*came twice.*never/s);
});
