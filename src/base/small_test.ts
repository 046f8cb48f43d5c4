import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { type Address, formatAddress } from "./host.ts";
import { seededRandom, sleep, systemClock } from "./clock.ts";
import { messageOf, ProxyError } from "./errors.ts";

for (
  const [address, want] of [
    [{ kind: "tcp", host: "127.0.0.1", port: 80 }, "127.0.0.1:80"],
    [{ kind: "tcp", host: "::1", port: 80 }, "[::1]:80"],
    [{ kind: "tcp", host: "db.example", port: 5432 }, "db.example:5432"],
    [{ kind: "unix", path: "/run/x.sock" }, "unix:///run/x.sock"],
  ] as [Address, string][]
) {
  test(`formatAddress() writes ${want}`, () => assert.equal(formatAddress(address), want));
}

test("sleep() ends after its time and not before", async () => {
  const clock = new FakeClock();
  let done = false;
  const sleeping = sleep(clock, 100).then(() => done = true);
  await clock.advance(99);
  assert.equal(done, false);
  await clock.advance(1);
  assert.equal(done, true);
  await sleeping;
});

test("sleep() ends at once when aborted, and leaves no timer", async () => {
  const clock = new FakeClock();
  const abort = new AbortController();
  const sleeping = sleep(clock, 100, { signal: abort.signal });
  abort.abort();
  await sleeping;
  await sleep(clock, 100, { signal: abort.signal });
  assert.equal(clock.pending, 0);
});

test("systemClock.after() can be cancelled, and takes times beyond a timer's range", () => {
  let fired = 0;
  for (const delayMs of [0, 2 ** 40]) systemClock.after(delayMs, () => fired++).cancel();
  assert.equal(fired, 0);
  const before = systemClock.monotonic();
  assert.ok(systemClock.monotonic() >= before);
});

test("seededRandom() repeats for a seed, differs between seeds, and is even", () => {
  const draw = (seed: number) => {
    const random = seededRandom(seed);
    return Array.from({ length: 10_000 }, random);
  };
  const first = draw(1);
  assert.deepEqual(draw(1), first);
  assert.notDeepEqual(draw(2).slice(0, 5), first.slice(0, 5));
  assert.ok(first.every((value) => value >= 0 && value < 1));
  const mean = first.reduce((sum, value) => sum + value, 0) / first.length;
  assert.ok(Math.abs(mean - 0.5) < 0.02, String(mean));
});

test("ProxyError carries its code and cause", () => {
  const cause = new Error("ECONNREFUSED");
  const error = new ProxyError("endpoint_refused", 'Cannot dial "db"', { cause });
  assert.equal(error.code, "endpoint_refused");
  assert.equal(error.cause, cause);
  assert.equal(messageOf(error), 'Cannot dial "db"');
  assert.equal(messageOf("text"), "text");
  assert.equal(messageOf(undefined), "undefined");
});
