import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError, silentLog, Stats } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { ConsulReach } from "./consul_reach.ts";
import { type PollAnswer, type PollRequest, startWatch } from "./blocking_query.ts";
import { ConnectionBudget } from "./budget.ts";
import { agentWatchTerms } from "./watch_terms.ts";

type Poll = (request: PollRequest<number>, reach: ConsulReach) => PollAnswer<number>;

/** A watch whose requests `poll` answers at once, on a clock that the test moves. */
function watch(poll: Poll): {
  readonly clock: FakeClock;
  readonly reach: ConsulReach;
  /** The cursor and the time of each request so far. */
  readonly asked: readonly { readonly cursor: string | undefined; readonly atMs: number }[];
  readonly values: readonly number[];
  stop(): void;
} {
  const clock = new FakeClock();
  const stats = new Stats();
  const reach = new ConsulReach();
  const budget = new ConnectionBudget({ connections: 12, clock, log: silentLog, stats });
  const asked: { cursor: string | undefined; atMs: number }[] = [];
  const values: number[] = [];
  const handle = startWatch<number>({
    name: "numbers",
    resource: "numbers",
    isDropped: true,
    poll(request) {
      asked.push({ cursor: request.cursor, atMs: clock.monotonic() });
      return new Promise((resolve) => resolve(poll(request, reach)));
    },
  }, {
    sink: { onValue: (value) => values.push(value), onError: () => {} },
    deps: {
      clock,
      random: () => 1,
      log: silentLog,
      stats,
      budget,
      reach,
      terms: agentWatchTerms(reach),
    },
  });
  return { clock, reach, asked, values, stop: () => (handle.stop(), budget.close()) };
}

test("startWatch() waits by the same index after an answer with it", async () => {
  const watching = watch(() => ({ value: 1, cursor: "7" }));
  await watching.clock.advance(0);
  watching.stop();
  const cursors = watching.asked.map(({ cursor }) => cursor);
  assert.deepEqual(cursors.slice(0, 4), [undefined, "7", "7", "7"]);
});

test("startWatch() forgets its index when a connection breaks during a pause", async () => {
  let index = 1;
  const watching = watch(() => ({ value: index, cursor: String(++index) }));
  await watching.clock.advance(0);
  const before = watching.asked.length;
  assert.equal(watching.asked.at(-1)?.cursor, String(before), "a burst, and then a pause");
  watching.reach.lost();
  await watching.clock.advance(250);
  watching.stop();
  assert.equal(watching.asked[before]?.cursor, undefined);
  assert.equal(watching.asked[before]?.atMs, 250);
});

test("startWatch() forgets the index of an answer during which a connection broke", async () => {
  const watching = watch((_, reach) => {
    if (watching.asked.length === 2) reach.lost();
    return { value: watching.asked.length, cursor: "7" };
  });
  await watching.clock.advance(0);
  watching.stop();
  const cursors = watching.asked.map(({ cursor }) => cursor);
  assert.deepEqual(cursors.slice(0, 4), [undefined, "7", undefined, "7"]);
  assert.ok(watching.values.includes(2), "its value is delivered");
});

for (
  const [name, rounds, pauseMs] of [
    ["one success", "ffff+f", 16_000],
    ["one success and later another", "ffff+f+f", 32_000],
    ["two successes in a row", "ffff++f", 1_000],
  ] as const
) {
  test(`startWatch() pauses ${pauseMs} ms after ${name}`, async () => {
    const watching = watch(() => {
      if (rounds[watching.asked.length - 1] !== "+") {
        throw new ProxyError("agent_failed", "Cannot read numbers: 500");
      }
      return { value: 1, cursor: "7" };
    });
    await watching.clock.advance(120_000);
    watching.stop();
    const [failed, next] = watching.asked.slice(rounds.length - 1);
    assert.equal((next?.atMs ?? 0) - (failed?.atMs ?? 0), pauseMs);
  });
}

test("startWatch() compares bytes with those of the last believed answer", async () => {
  const lasts: unknown[] = [];
  const watching = watch((request) => {
    lasts.push(request.last);
    return {
      value: lasts.length,
      cursor: "7",
      ...(lasts.length === 2 ? {} : { digest: `${lasts.length}` }),
    };
  });
  await watching.clock.advance(0);
  watching.stop();
  assert.deepEqual(lasts.slice(0, 4), [
    undefined,
    { value: 1, digest: "1" },
    { value: 2 },
    { value: 3, digest: "3" },
  ]);
});
