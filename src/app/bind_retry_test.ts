import test from "node:test";
import assert from "node:assert/strict";
import { silentLog } from "../base/mod.ts";
import type { DataView } from "../proxy/mod.ts";
import { FakeClock } from "../../test/kit/clock.ts";
import { BindRetry } from "./bind_retry.ts";

function rig(answers: readonly (boolean | Error)[]) {
  const clock = new FakeClock();
  const stopping = new AbortController();
  let tried = 0;
  let bound = 0;
  const listener = (name: string, error: string) =>
    ({ name, state: error ? "failed" : "listening", error }) as DataView["listeners"][number];
  const view = {
    listeners: [listener("inbound", "port 1 is in use"), listener("db", "")],
  } as unknown as DataView;
  const retry = new BindRetry({
    clock,
    log: silentLog,
    signal: stopping.signal,
    onBound: () => bound++,
    plane: {
      retryFailed() {
        const answer = answers[Math.min(tried++, answers.length - 1)];
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer ?? false);
      },
      // As two workers say it.
      views: () => Promise.resolve([view, view]),
    },
  });
  return { clock, stopping, retry, tried: () => tried, bound: () => bound };
}

test("look() says which listener is not bound, tries again every second, and tells when it is", async () => {
  const { clock, retry, tried, bound } = rig([false, false, true]);
  await retry.look();
  assert.deepEqual(retry.unbound, ["listener inbound is not bound: port 1 is in use"]);
  await clock.advance(1_000);
  assert.deepEqual([tried(), bound()], [2, 0]);
  await clock.advance(1_000);
  assert.deepEqual([tried(), bound()], [3, 1]);
  assert.deepEqual(retry.unbound, []);
  await clock.advance(5_000);
  assert.equal(tried(), 3);
});

test("look() starts no second timer for the same trouble", async () => {
  const { clock, retry, tried } = rig([false]);
  await Promise.all([retry.look(), retry.look(), retry.look()]);
  await clock.advance(1_000);
  assert.equal(tried(), 4);
});

test("look() goes on after a worker that failed to answer", async () => {
  const { clock, retry, bound } = rig([new Error("gone"), true]);
  await retry.look();
  assert.equal(bound(), 0);
  await clock.advance(1_000);
  assert.equal(bound(), 1);
});

test("look() stops with the proxy", async () => {
  const { clock, stopping, retry, tried } = rig([false]);
  await retry.look();
  stopping.abort();
  await clock.advance(5_000);
  assert.equal(tried(), 1);
});
