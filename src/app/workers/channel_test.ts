import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { Channel, type Port } from "./channel.ts";

interface Near {
  told(text: string): void;
  add(a: number, b: number): number;
}

interface Far {
  later(value: number): Promise<number>;
  fails(error: unknown): never;
  never(): Promise<number>;
}

/** Two ends of one wire; what is sent on `held` is kept there until the test delivers it. */
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
  const missing = () => assert.fail("not asked here");
  return {
    toFar: new Channel<Far, Near>(a, { told: missing, add: missing, ...near }),
    toNear: new Channel<Near, Far>(b, { later: missing, fails: missing, never: missing, ...far }),
    hold: () => holds = true,
    deliver: () => {
      holds = false;
      deliver();
    },
  };
}

test("Channel asks and answers in both directions, each question its own", async () => {
  const { toFar, toNear } = wire(
    { add: (a, b) => a + b },
    { later: (value) => Promise.resolve(value * 2) },
  );
  const answers = [toFar.ask("later", 1), toFar.ask("later", 2), toNear.ask("add", 3, 4)];
  assert.deepEqual(await Promise.all(answers), [2, 4, 7]);
});

test("Channel tells without an answer, in order", () => {
  const texts: string[] = [];
  const { toNear } = wire({ told: (text) => texts.push(text) });
  toNear.tell("told", "a");
  toNear.tell("told", "b");
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
    ["what is no error", "text", "internal", "text"],
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

test("Channel.close() ends what is asked, and later questions at once", async () => {
  const { toFar } = wire({}, { never: () => new Promise(() => {}) });
  const asked = toFar.ask("never");
  toFar.close();
  await assert.rejects(asked, { code: "closed" });
  await assert.rejects(toFar.ask("never"), { code: "closed" });
});

test("Channel.close() is the end of what the other side says", async () => {
  const texts: string[] = [];
  const { toFar, toNear, hold, deliver } = wire({ told: (text) => texts.push(text) });
  hold();
  toNear.tell("told", "late");
  toFar.close();
  deliver();
  await Promise.resolve();
  assert.deepEqual(texts, []);
});
