import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import type { ConditionChange, NewEvent } from "../base/mod.ts";
import { WorkerConditions } from "./worker_conditions.ts";

const EJECTED: NewEvent = { kind: "endpoint", subject: "db", text: "db-1 ejected", isLogged: true };
const ON: ConditionChange = { key: "db-1", isOn: true, times: 1, refused: 0, event: EJECTED };
const OFF: ConditionChange = {
  key: "db-1",
  isOn: false,
  times: 1,
  refused: 0,
  event: { ...EJECTED, text: "db-1 back" },
};

function rig(workers: number) {
  const clock = new FakeClock();
  const events: NewEvent[] = [];
  const conditions = new WorkerConditions({ clock, workers, report: (one) => events.push(one) });
  return { clock, conditions, events, texts: () => events.map(({ text }) => text) };
}

for (
  const [name, workers, steps, want] of [
    ["one worker", 1, [[0, ON], 500, [0, OFF]], ["db-1 ejected", "db-1 back"]],
    ["an end before the begin was reported", 1, [[0, ON], [0, OFF]], ["db-1 ejected", "db-1 back"]],
    [
      "two workers at once",
      2,
      [[0, ON], [1, ON], 500, [0, OFF], [1, OFF]],
      ["db-1 ejected (2 of 2 workers)", "db-1 back"],
    ],
    [
      "a worker that is later",
      2,
      [[1, ON], 500, [0, ON], 500, [1, OFF], 500, [0, OFF]],
      ["db-1 ejected (1 of 2 workers)", "db-1 back"],
    ],
    [
      "an ejection that begins again",
      2,
      [[1, ON], 500, [0, ON], 6_000, [1, ON], 500, [0, OFF]],
      ["db-1 ejected (1 of 2 workers)", "db-1 ejected (1 of 2 workers)"],
    ],
    [
      "what flapped",
      1,
      [[0, { ...ON, isOn: false, times: 97 }], 500],
      ["db-1 ejected; 97 times within a minute"],
    ],
    [
      "what flapped and lasts",
      1,
      [[0, { ...ON, times: 97 }], 500, [0, OFF]],
      ["db-1 ejected; 97 times within a minute", "db-1 back"],
    ],
    ["an endpoint that is gone", 1, [[0, ON], 500, [0, { ...OFF, event: undefined }]], [
      "db-1 ejected",
    ]],
  ] as const satisfies readonly (readonly [
    string,
    number,
    readonly (number | readonly [number, ConditionChange])[],
    readonly string[],
  ])[]
) {
  test(`WorkerConditions reports ${name}`, async () => {
    const { clock, conditions, texts } = rig(workers);
    for (const step of steps) {
      if (typeof step === "number") await clock.advance(step);
      else conditions.take(step[0], [step[1]]);
    }
    assert.deepEqual(texts(), want);
    await clock.advance(500);
    assert.equal(clock.pending, 0);
  });
}

test("WorkerConditions adds up what the workers refused", async () => {
  const { clock, conditions, events } = rig(2);
  for (const worker of [0, 1]) conditions.take(worker, [ON]);
  await clock.advance(500);
  conditions.take(0, [{ ...OFF, refused: 40 }]);
  conditions.take(1, [{ ...OFF, refused: 6 }]);
  assert.equal(events.at(-1)?.effect, "46 failed");
});

test("WorkerConditions has a log line for what flapped, which has none of its own", async () => {
  const { clock, conditions, events } = rig(1);
  conditions.take(0, [ON]);
  await clock.advance(500);
  conditions.take(0, [{ ...ON, times: 9 }]);
  await clock.advance(500);
  assert.deepEqual(events.map(({ isLogged }) => isLogged), [true, undefined]);
});

test("WorkerConditions forgets a worker that died", async () => {
  const { clock, conditions, texts } = rig(2);
  conditions.take(0, [ON]);
  await clock.advance(500);
  conditions.forget(0);
  conditions.take(1, [ON]);
  await clock.advance(500);
  assert.deepEqual(texts(), ["db-1 ejected (1 of 2 workers)", "db-1 ejected (1 of 2 workers)"]);
});
