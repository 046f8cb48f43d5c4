import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryEngine } from "../../../test/kit/engine/memory_engine.ts";
import type { Context } from "../core/context.ts";
import { ConnectionRecord } from "../observe/connection_record.ts";
import { dialLocal } from "./endpoint_dial.ts";

function setUp() {
  const engine = new MemoryEngine();
  const log: string[] = [];
  let expire = () => {};
  const deadlines = {
    after(timeoutMs: number, expired: () => void) {
      log.push(`deadline ${timeoutMs}`);
      expire = expired;
      return { cancel: () => log.push("deadline cancelled") };
    },
  };
  const record = new ConnectionRecord(
    { direction: "inbound", name: "inbound", destination: "", http: null },
    "192.0.2.1:5",
    0,
  );
  const dial = dialLocal({ kind: "tcp", host: "127.0.0.1", port: 80 }, {
    record,
    onDialled: () => log.push("dialled"),
    onFailed: (code, reason) => log.push(`${code}: ${reason}`),
  }, { context: { engine, deadlines } as unknown as Context, timeoutMs: 5 });
  return { dial, log, engine, record, expire: () => expire() };
}

for (
  const [name, happens, log, cancelled] of [
    [
      "answers",
      ({ engine }) => engine.lastDial.connect(),
      ["deadline cancelled", "dialled"],
      false,
    ],
    ["refuses", ({ engine }) => engine.lastDial.fail("refused"), [
      "deadline cancelled",
      "local_refused: Cannot dial the service at 127.0.0.1:80: refused; does it run?",
    ], false],
    ["does not answer", ({ expire }) => expire(), [
      "local_timed_out: no connection to 127.0.0.1:80 after 5 ms",
    ], true],
    ["is not waited for any more", ({ dial }) => dial.cancel(), ["deadline cancelled"], true],
  ] as readonly (readonly [
    string,
    (parts: ReturnType<typeof setUp>) => unknown,
    readonly string[],
    boolean,
  ])[]
) {
  test(`dialLocal() to a service that ${name}`, () => {
    const parts = setUp();
    const { stage, endpoint } = parts.record;
    assert.deepEqual([stage, endpoint], ["dial", "127.0.0.1:80"]);
    happens(parts);
    assert.deepEqual(parts.log, ["deadline 5", ...log]);
    assert.equal(parts.engine.lastDial.cancelled, cancelled);
  });
}
