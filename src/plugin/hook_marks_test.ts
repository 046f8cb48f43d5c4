import assert from "node:assert/strict";
import { test } from "node:test";
import { type HookMark, HookMarks, HookWatch, IN, keyOf, type MarkedPlugin } from "./hook_marks.ts";

const LIMITS = { hook: 4, answer: 8 };

function pluginOf(plugin: string): MarkedPlugin {
  return { plugin, listener: "db", onFailure: "refuse", at: "plugins[0]", key: plugin };
}

function rig() {
  const watch = new HookWatch();
  const marks = new HookMarks(watch.memory, watch.take);
  const [a, b] = [marks.open(pluginOf("a")), marks.open(pluginOf("b"))];
  return { watch, marks, a, b };
}

interface Row {
  /** Steps of the worker, one before each look; the last one is repeated. */
  readonly turns: readonly ((a: HookMark, b: HookMark) => void)[];
  readonly isAnswering?: boolean;
  readonly looks: number;
  readonly holds: string | undefined;
}

const nothing = () => {};
const entersA = (a: HookMark) => void a.enter(IN.onRequest);

const ROWS: Readonly<Record<string, Row>> = {
  "names the hook that runs at the limit": {
    turns: [entersA, nothing],
    looks: 5,
    holds: "a onRequest sure",
  },
  "does not before the limit": { turns: [entersA, nothing], looks: 4, holds: undefined },
  "does not where hooks come and go": {
    turns: [(a) => a.leave(a.enter(IN.onRequest))],
    looks: 50,
    holds: undefined,
  },
  "does not where each look sees another call of the same hook": {
    turns: [entersA],
    looks: 50,
    holds: undefined,
  },
  "names the outer hook after an inner one has returned": {
    turns: [(a, b) => {
      a.enter(IN.response);
      b.leave(b.enter(IN.onRequest));
    }, nothing],
    looks: 5,
    holds: "a response sure",
  },
  "names the inner hook while it runs": {
    turns: [(a, b) => {
      a.enter(IN.onRequest);
      b.enter(IN.create);
    }, nothing],
    looks: 5,
    holds: "b create sure",
  },
  "does not name a worker that rests": { turns: [nothing], looks: 50, holds: undefined },
  "names the plugin entered last where nothing is answered": {
    turns: [(a, b) => {
      a.leave(a.enter(IN.onRequest));
      b.leave(b.enter(IN.timer));
    }, nothing],
    isAnswering: false,
    looks: 8,
    holds: "b timer probably",
  },
  "names the plugin that went on last where nothing is answered": {
    turns: [(a, b) => {
      b.leave(b.enter(IN.onRequest));
      a.resumed(IN.onRequest);
    }, nothing],
    isAnswering: false,
    looks: 8,
    holds: "a onRequest probably",
  },
  "names no plugin before one was entered": {
    turns: [nothing],
    isAnswering: false,
    looks: 8,
    holds: undefined,
  },
};

for (const [name, { turns, isAnswering = true, looks, holds }] of Object.entries(ROWS)) {
  test(`HookWatch.look() ${name}`, () => {
    const { watch, a, b } = rig();
    const found: string[] = [];
    for (let look = 0; look < looks; look++) {
      turns[Math.min(look, turns.length - 1)]?.(a, b);
      const holding = watch.look(isAnswering, LIMITS);
      if (!holding) continue;
      const { plugin: { plugin }, hook, isSure } = holding;
      found.push(`${plugin} ${hook} ${isSure ? "sure" : "probably"}`);
    }
    assert.deepEqual(found, holds === undefined ? [] : [holds]);
  });
}

test("HookWatch.look() returns a holder once, and again for the next call", () => {
  const { watch, a } = rig();
  const count = (looks: number) =>
    Array.from({ length: looks }, () => watch.look(true, LIMITS)).filter(Boolean).length;
  const before = a.enter(IN.onRequest);
  assert.equal(count(50), 1);
  assert.equal(watch.isHeld, true);
  a.leave(before);
  assert.equal(count(1), 0);
  assert.equal(watch.isHeld, false);
  a.enter(IN.onRequest);
  assert.equal(count(50), 1);
});

test("HookMarks tells of plugins that come and go, and gives them their name", () => {
  const { watch, a, b } = rig();
  assert.equal(watch.isUsed, true);
  a.named("a2");
  a.enter(IN.close);
  for (let look = 0; look < 4; look++) watch.look(true, LIMITS);
  assert.equal(watch.look(true, LIMITS)?.plugin.plugin, "a2");
  for (const mark of [a, b, b]) mark.close();
  assert.equal(watch.isUsed, false);
});

test("HookMarks.setHeld() reaches plugins that are open, and those that come", () => {
  const { marks, a, b } = rig();
  let told = 0;
  a.onHeld = () => told++;
  const held = { key: "a", reason: "it held", atMs: 1, barred: "calls" } as const;
  marks.setHeld([held]);
  assert.equal(told, 1);
  assert.deepEqual([a.held, b.held, marks.open(pluginOf("a")).held], [held, undefined, held]);
  marks.setHeld([]);
  assert.equal(a.held, undefined);
});

test("HookMark.call() leaves the hook if it throws", () => {
  const { watch, a } = rig();
  assert.throws(() => a.call(IN.import, () => assert.fail("no")));
  for (let look = 0; look < 10; look++) assert.equal(watch.look(true, LIMITS), undefined);
});

test("keyOf() differs by content", () => {
  const use = { plugin: "./a.ts", config: { limit: 1 } };
  assert.equal(keyOf("db", [use]), keyOf("db", [{ ...use }]));
  assert.notEqual(keyOf("db", [use]), keyOf("db", [{ ...use, config: { limit: 2 } }]));
});
