import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { certificateSecret, recordingLog } from "../../../test/kit/secrets/secret_peers.ts";
import { Stats } from "../../base/mod.ts";
import { ExpiryWatch } from "./expiry.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAY_S = DAY_MS / 1_000;
const NOW_MS = Date.UTC(2026, 10, 21);
const WEB = { ref: { name: "web" }, source: "file /etc/tls/web.pem" };

function setUp() {
  const clock = new FakeClock({ startMs: NOW_MS });
  const log = recordingLog();
  const stats = new Stats();
  const watch = new ExpiryWatch({ clock, log, stats, warnFraction: 1 / 3 });
  const value = (name: string) => stats.samples().find((sample) => sample.name === name)?.value;
  return {
    clock,
    watch,
    stats,
    logged: () =>
      log.lines.map(({ level, fields }) => `${level} ${fields.serial} ${fields.expires_in ?? ""}`),
    value,
    daysLeft: () =>
      Math.round(
        ((value("certificates_first_expiry_seconds") ?? NaN) - clock.now() / 1_000) / DAY_S,
      ),
  };
}

/** A certificate that is valid from now on. */
function days(serial: string, count: number, fromMs = NOW_MS) {
  return certificateSecret(serial, { notBeforeMs: fromMs, notAfterMs: fromMs + count * DAY_MS });
}

test("ExpiryWatch warns at the last third, at each half of the rest, and at the expiry", async () => {
  const { clock, watch, logged, value, daysLeft } = setUp();
  watch.watch(WEB, days("01", 90));
  await clock.advance(60 * DAY_MS - 1);
  assert.deepEqual(logged(), []);
  assert.equal(value("certificates_near_expiry"), 0);
  assert.equal(daysLeft(), 30);
  await clock.advance(2);
  assert.deepEqual(logged(), ["warn 01 30d"]);
  assert.equal(value("certificates_near_expiry"), 1);
  await clock.advance(29 * DAY_MS);
  assert.deepEqual(logged().slice(1), [
    "warn 01 15d",
    "warn 01 7d12h",
    "warn 01 3d18h",
    "warn 01 1d21h",
  ]);
  await clock.advance(DAY_MS);
  const last = logged();
  assert.ok(last.length < 25, `${last.length} lines`);
  assert.equal(last.at(-1), "error 01 ");
  await clock.advance(30 * DAY_MS);
  assert.equal(logged().length, last.length);
  assert.equal(daysLeft(), -30);
  assert.equal(value("certificate_expiry_seconds"), (NOW_MS + 90 * DAY_MS) / 1_000);
  watch.close();
  assert.equal(clock.pending, 0);
});

// The lines about a certificate at its arrival, by its age in days; it is valid for ninety.
for (
  const [name, age, want] of [
    ["a new certificate", 0, []],
    ["a certificate at two thirds of its life", 60, ["warn 01 30d"]],
    ["a certificate near its expiry", 89, ["warn 01 1d"]],
    ["an expired certificate", 91, ["error 01 "]],
    ["a certificate that is not valid yet", -10, []],
  ] as const
) {
  test(`ExpiryWatch.watch() of ${name}`, async () => {
    const { clock, watch, logged } = setUp();
    watch.watch(WEB, days("01", 90, NOW_MS - age * DAY_MS));
    await clock.advance(1_000);
    assert.deepEqual(logged(), want);
    watch.close();
  });
}

test("ExpiryWatch does not warn of a certificate that is replaced in time", async () => {
  const { clock, watch, logged, value, daysLeft } = setUp();
  for (let day = 0; day < 200; day += 50) {
    watch.watch(WEB, days(`d${day}`, 90, clock.now()));
    await clock.advance(50 * DAY_MS);
  }
  assert.deepEqual(logged(), []);
  assert.equal(daysLeft(), 40);
  watch.forget(WEB);
  await clock.advance(1);
  assert.equal(value("certificates_first_expiry_seconds"), undefined);
  assert.equal(value("certificate_expiry_seconds"), undefined);
  assert.equal(clock.pending, 0);
  watch.close();
});

test("ExpiryWatch notices a wall clock that was set", async () => {
  const { clock, watch, logged } = setUp();
  watch.watch(WEB, days("01", 90));
  await clock.advance(DAY_MS);
  clock.jump(100 * DAY_MS);
  await clock.advance(HOUR_MS);
  assert.deepEqual(logged(), ["error 01 "]);
  watch.close();
});

test("ExpiryWatch has one timer for a thousand certificates, and counts those near expiry", async () => {
  const { clock, watch, logged, value, daysLeft } = setUp();
  for (let i = 0; i < 1_000; i++) {
    watch.watch({ ref: { name: `s${i}` }, source: "sds" }, days(`${i}`, 30 + i));
  }
  assert.equal(clock.pending, 1);
  await clock.advance(21 * DAY_MS);
  assert.equal(daysLeft(), 9);
  assert.equal(value("certificates_near_expiry"), 2);
  assert.deepEqual(logged(), ["warn 0 10d", "warn 1 10d8h"]);
  watch.close();
});
