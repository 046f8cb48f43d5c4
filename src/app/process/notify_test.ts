import { strict as assert } from "node:assert";
import { test } from "node:test";
import { silentLog } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { Notifier } from "./notify.ts";

function recorded(env: Record<string, string>) {
  const sent: string[] = [];
  const clock = new FakeClock();
  const notifier = new Notifier({
    env,
    pid: 42,
    clock,
    log: silentLog,
    send: (path, text) => {
      sent.push(`${path} ${text}`);
      return "sent";
    },
  });
  return { sent, clock, notifier };
}

test("Notifier sends states in order, one line each", () => {
  const { sent, notifier } = recorded({ NOTIFY_SOCKET: "@s" });
  notifier.status("waiting for the certificate");
  notifier.ready("3 listeners");
  notifier.reloading("reading files");
  notifier.stopping("draining\nnow");
  assert.deepEqual(sent, [
    "@s STATUS=waiting for the certificate",
    "@s READY=1\nSTATUS=3 listeners",
    "@s RELOADING=1\nSTATUS=reading files",
    "@s STOPPING=1\nSTATUS=draining now",
  ]);
});

test("Notifier sends nothing without NOTIFY_SOCKET", async () => {
  const { sent, notifier, clock } = recorded({ WATCHDOG_USEC: "1000000" });
  notifier.ready("");
  notifier.startWatchdog(() => true);
  await clock.advance(10_000);
  assert.deepEqual(sent, []);
  assert.equal(notifier.enabled, false);
});

test("Notifier signals the watchdog twice per interval, and only while healthy", async () => {
  const { sent, notifier, clock } = recorded({ NOTIFY_SOCKET: "@s", WATCHDOG_USEC: "10000000" });
  let healthy = true;
  notifier.startWatchdog(() => healthy);
  await clock.advance(14_999);
  assert.deepEqual(sent, Array(3).fill("@s WATCHDOG=1"));
  healthy = false;
  await clock.advance(20_000);
  assert.equal(sent.length, 3);
  healthy = true;
  await clock.advance(5_000);
  assert.equal(sent.length, 4);
  await notifier.close();
  await clock.advance(60_000);
  assert.equal(sent.length, 4);
  assert.equal(clock.pending, 0);
});

for (
  const [name, env] of [
    ["for another process", { WATCHDOG_USEC: "1000000", WATCHDOG_PID: "41" }],
    ["that is not a number", { WATCHDOG_USEC: "soon" }],
    ["that is not there", {}],
  ] as const
) {
  test(`Notifier ignores a watchdog ${name}`, async () => {
    const { sent, notifier, clock } = recorded({ NOTIFY_SOCKET: "@s", ...env });
    notifier.startWatchdog(() => true);
    await clock.advance(10_000);
    assert.deepEqual(sent, []);
  });
}

test("Notifier runs a program where the runtime cannot send, one message after the other", async () => {
  const order: string[] = [];
  const notifier = new Notifier({
    env: { NOTIFY_SOCKET: "/run/s" },
    pid: 42,
    clock: new FakeClock(),
    log: silentLog,
    send: () => "unsupported",
    runNotifyProgram: async (path, text) => {
      order.push(`begin ${path} ${text}`);
      await Promise.resolve();
      order.push("end");
      if (text.includes("first")) throw new Error("no such program");
    },
  });
  notifier.status("first");
  notifier.status("second");
  await notifier.close();
  assert.deepEqual(order, [
    "begin /run/s STATUS=first",
    "end",
    "begin /run/s STATUS=second",
    "end",
  ]);
});

test("Notifier warns once when the supervisor does not listen", () => {
  let warnings = 0;
  const notifier = new Notifier({
    env: { NOTIFY_SOCKET: "/run/s" },
    pid: 42,
    clock: new FakeClock(),
    log: { ...silentLog, warn: () => void warnings++ },
    send: () => "failed",
  });
  notifier.ready("");
  notifier.status("");
  assert.equal(warnings, 1);
});
