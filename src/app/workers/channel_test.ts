import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { Channel, type Port } from "./channel.ts";

interface Near {
  note(text: string): void;
  add(a: number, b: number): number;
}

interface Far {
  later(value: number): Promise<number>;
  fails(error: unknown): never;
  never(): Promise<number>;
}

/** Two ends of a wire that holds messages back between `hold` and `deliver`. */
function wire(near: Partial<Near> = {}, far: Partial<Far> = {}) {
  const held: (() => void)[] = [];
  const end = (other: () => Port): Port => ({
    onmessage: null,
    postMessage: (message) => {
      const data: unknown = structuredClone(message);
      held.push(() => other().onmessage?.({ data }));
      deliver();
    },
  });
  let holds = false;
  const deliver = () => {
    while (!holds) {
      const next = held.shift();
      if (!next) return;
      next();
    }
  };
  const a: Port = end(() => b);
  const b: Port = end(() => a);
  const missing = () => assert.fail("not called in this test");
  return {
    toFar: new Channel<Far, Near>(a, { note: missing, add: missing, ...near }),
    toNear: new Channel<Near, Far>(b, { later: missing, fails: missing, never: missing, ...far }),
    hold: () => holds = true,
    deliver: () => {
      holds = false;
      deliver();
    },
  };
}

test("Channel.ask() returns the result of its own call, in both directions", async () => {
  const { toFar, toNear } = wire(
    { add: (a, b) => a + b },
    { later: (value) => Promise.resolve(value * 2) },
  );
  const answers = [toFar.ask("later", 1), toFar.ask("later", 2), toNear.ask("add", 3, 4)];
  assert.deepEqual(await Promise.all(answers), [2, 4, 7]);
});

test("Channel.tell() delivers calls in order", () => {
  const texts: string[] = [];
  const { toNear } = wire({ note: (text) => texts.push(text) });
  toNear.tell("note", "a");
  toNear.tell("note", "b");
  assert.deepEqual(texts, ["a", "b"]);
});

for (
  const [name, thrown, code, message] of [
    [
      "a failure of ours",
      new ProxyError("authorize_failed", "no agent"),
      "authorize_failed",
      "no agent",
    ],
    ["any other error", new TypeError("x is not y"), "internal", "x is not y"],
    ["a thrown text", "text", "internal", "text"],
  ] as const
) {
  test(`Channel passes on ${name}`, async () => {
    const { toFar } = wire({}, {
      fails() {
        throw thrown;
      },
    });
    await assert.rejects(
      toFar.ask("fails", null),
      (error) => error instanceof ProxyError && error.code === code && error.message === message,
    );
  });
}

test("Channel.close() rejects pending and later calls", async () => {
  const { toFar } = wire({}, { never: () => new Promise(() => {}) });
  const pending = toFar.ask("never");
  toFar.close();
  await assert.rejects(pending, { code: "closed" });
  await assert.rejects(toFar.ask("never"), { code: "closed" });
});

test("Channel.close() ignores later messages of the other side", async () => {
  const texts: string[] = [];
  const { toFar, toNear, hold, deliver } = wire({ note: (text) => texts.push(text) });
  hold();
  toNear.tell("note", "late");
  toFar.close();
  deliver();
  await Promise.resolve();
  assert.deepEqual(texts, []);
});
