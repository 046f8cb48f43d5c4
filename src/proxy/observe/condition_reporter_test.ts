import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import type { ConditionChange, NewEvent } from "../../base/mod.ts";
import { ConditionReporter } from "./condition_reporter.ts";

const EJECTED: NewEvent = { kind: "endpoint", subject: "db", text: "db-1 ejected" };
const BACK: NewEvent = { kind: "endpoint", subject: "db", text: "db-1 back" };

function rig(take?: () => Promise<void>) {
  const clock = new FakeClock();
  const messages: (readonly ConditionChange[])[] = [];
  const reporter = new ConditionReporter(clock, (changes) => {
    messages.push(changes);
    return take?.() ?? Promise.resolve();
  });
  const texts = () =>
    messages.flat().map(({ isOn, times, event }) =>
      `${isOn ? "on" : "off"} ${times}${event ? ` ${event.text}` : ""}`
    );
  return { clock, messages, reporter, texts };
}

test("ConditionReporter tells begin and end in one message, and sets no timer afterwards", async () => {
  const { clock, messages, reporter, texts } = rig();
  assert.equal(clock.pending, 0);
  assert.equal(reporter.began("db-1", EJECTED), true);
  reporter.ended("db-1", BACK, 7);
  reporter.ended("db-1", BACK, 7);
  await clock.advance(200);
  assert.deepEqual(texts(), ["on 1 db-1 ejected", "off 1 db-1 back"]);
  assert.equal(messages.length, 1);
  assert.equal(messages[0]?.[1]?.refused, 7);
  await clock.advance(120_000);
  assert.equal(clock.pending, 0);
  assert.equal(messages.length, 1);
});

test("ConditionReporter counts what flaps, and tells it once within a minute", async () => {
  const { clock, reporter, texts } = rig();
  let logged = 0;
  for (let count = 0; count < 100; count++) {
    if (reporter.began("db-1", EJECTED)) logged++;
    reporter.ended("db-1", BACK);
    await clock.advance(100);
  }
  assert.equal(logged, 3);
  assert.equal(texts().length, 6);
  await clock.advance(60_000);
  assert.deepEqual(texts().slice(6), ["off 97 db-1 ejected"]);
  assert.equal(reporter.began("db-1", EJECTED), true, "it is told again in the next minute");
});

test("ConditionReporter ends a condition of two endpoints with the second", async () => {
  const { clock, reporter, texts } = rig();
  reporter.began("db-1", EJECTED);
  reporter.began("db-1", EJECTED);
  reporter.ended("db-1", BACK);
  await clock.advance(200);
  assert.deepEqual(texts(), ["on 1 db-1 ejected", "on 1 db-1 ejected"]);
  reporter.ended("db-1");
  await clock.advance(200);
  assert.deepEqual(texts().slice(2), ["off 1"]);
});

test("ConditionReporter bounds its conditions, and counts the others by kind", async () => {
  const { clock, reporter, texts } = rig();
  for (let at = 0; at < 10_000; at++) reporter.began(`db-${at}`, EJECTED);
  await clock.advance(200);
  assert.equal(texts().length, 500);
  await clock.advance(60_000);
  assert.deepEqual(texts().slice(500), ["off 1 9500 more conditions of this kind within 60 s"]);
});

test("ConditionReporter sends nothing while the main thread does not take it", async () => {
  const taken = Promise.withResolvers<void>();
  const { clock, messages, reporter, texts } = rig(() => taken.promise);
  reporter.began("db-1", EJECTED);
  await clock.advance(200);
  for (let at = 0; at < 3_000; at++) {
    reporter.began(`x${at % 400}`, EJECTED);
    reporter.ended(`x${at % 400}`, BACK);
  }
  await clock.advance(10_000);
  assert.equal(messages.length, 1);
  taken.resolve();
  await settle();
  assert.equal(messages.length, 2);
  assert.ok(texts().length < 1_600, `${texts().length} changes waited`);
});
