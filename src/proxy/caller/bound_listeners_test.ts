import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { type BindAddress, type Log, type LogFields, silentLog, Stats } from "../../base/mod.ts";
import type { Listener } from "../../net/mod.ts";
import type { Context } from "../core/context.ts";
import { type BoundListener, BoundListeners } from "./bound_listeners.ts";

const at = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;

class FakeListener implements Listener {
  readonly address: BindAddress;
  readonly keepsWaiting = true;
  isOpen = true;

  constructor(address: BindAddress) {
    this.address = address;
  }

  pause(): void {}
  resume(): void {}
  copies = () => [];
  close(): void {
    assert.ok(this.isOpen, "it was closed before");
    this.isOpen = false;
  }
}

function world(log: Log = silentLog) {
  const context = { clock: new FakeClock(), log, stats: new Stats() };
  const listeners = new BoundListeners(context as unknown as Context, {
    workers: 1,
    held: false,
  });
  return {
    listeners,
    replace: (port: number, current?: BoundListener) =>
      listeners.replace("in", at(port), current, "strangers"),
    /** Bound when `bind` is called. */
    opening(bound: BoundListener) {
      const listener = new FakeListener(bound.bind);
      const held = Promise.withResolvers<Listener>();
      const opened = listeners.open(bound, () => held.promise);
      const bind = () => {
        held.resolve(listener);
        return opened;
      };
      return { listener, bind };
    },
  };
}

test("BoundListeners closes a listener that was removed while it was being bound", async () => {
  const { listeners, replace, opening } = world();
  const bound = replace(1);
  const { listener, bind } = opening(bound);
  listeners.close(bound);
  await bind();
  assert.equal(listener.isOpen, false);
  assert.equal(bound.listener, undefined);
});

test("BoundListeners keeps the previous address until the last of its successors is bound", async () => {
  const { listeners, replace, opening } = world();
  const [first, second, third] = [1, 2, 3].reduce<BoundListener[]>(
    (made, port) => [...made, replace(port, made.at(-1))],
    [],
  );
  assert.ok(first && second && third);
  // Replaced before any was bound: only the last one may listen.
  const late = [first, second].map(opening);
  const last = opening(third);
  for (const { bind } of [...late, last]) await bind();
  assert.deepEqual([...late, last].map(({ listener }) => listener.isOpen), [false, false, true]);
  const fourth = replace(4, third);
  const skipped = opening(fourth);
  const fifth = replace(5, fourth);
  const newest = opening(fifth);
  await skipped.bind();
  assert.deepEqual([skipped, last].map(({ listener }) => listener.isOpen), [false, true]);
  await newest.bind();
  assert.deepEqual([newest, last].map(({ listener }) => listener.isOpen), [true, false]);
  listeners.close(fifth);
  assert.equal(newest.listener.isOpen, false);
});

test("BoundListeners.close() closes the previous address as well", async () => {
  const { listeners, replace, opening } = world();
  const before = replace(1);
  const { listener, bind } = opening(before);
  await bind();
  listeners.close(replace(2, before));
  assert.equal(listener.isOpen, false);
});

test("BoundListeners.replace() closes the old listener at once if the new one has the same address", async () => {
  const { replace, opening } = world();
  const before = replace(1);
  const { listener, bind } = opening(before);
  await bind();
  assert.equal(replace(1, before).previous, undefined);
  assert.equal(listener.isOpen, false);
});

test("BoundListeners.open() logs an error once, and again when it changes", async () => {
  const said: string[] = [];
  const log = {
    ...silentLog,
    debug: (_message: string, fields?: LogFields) => said.push(`debug ${fields?.["error"]}`),
    error: (_message: string, fields?: LogFields) => said.push(`error ${fields?.["error"]}`),
  };
  const { listeners, replace } = world(log);
  let bound: BoundListener | undefined;
  for (const error of ["in use", "in use", "no rights"]) {
    bound = replace(1, bound);
    await listeners.open(bound, () => Promise.reject(new Error(error)));
  }
  assert.deepEqual(said, ["error in use", "debug in use", "error no rights"]);
});
