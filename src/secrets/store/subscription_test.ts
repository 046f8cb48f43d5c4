import assert from "node:assert/strict";
import test from "node:test";
import { followChanges } from "../../../test/kit/secrets/secret_changes.ts";
import { certificateSecret, secretRef } from "../../../test/kit/secrets/secret_peers.ts";
import { WORKLOAD } from "../../../test/kit/secrets/secret_store.ts";
import type { SecretEvents, SecretRef } from "../model/plan.ts";

/** The events of a source that are reported as changes. */

function follow(ref: SecretRef = secretRef("web")) {
  const reported: string[] = [];
  let events: SecretEvents | undefined;
  const provider = {
    watch(_ref: SecretRef, of: SecretEvents) {
      events = of;
      return { refresh() {}, close() {} };
    },
    close: () => Promise.resolve(),
  };
  const subscription = followChanges(provider, ref, {
    onSecret: (secret) => void reported.push(secret.type === "certificate" ? secret.serial : ""),
    onRejected: (reason) => void reported.push(reason),
    onRecovered: () => void reported.push("recovered"),
    onUnreachable: (reason) => void reported.push(reason),
    onRemoved: (reason) => void reported.push(reason ?? "removed"),
  });
  subscription.observers.add({
    onValue: () => void reported.push("value"),
    onRemoved: () => void reported.push("none"),
  });
  assert.ok(events);
  return { reported, events, subscription };
}

type Act = (events: SecretEvents) => void;
const one: Act = (events) => events.onSecret(certificateSecret("01"), "");
const two: Act = (events) => events.onSecret(certificateSecret("02"), "");
const torn: Act = (events) => events.onRejected("torn");
const away: Act = (events) => events.onUnreachable("away");
const reached: Act = (events) => events.onReached();
const recovered: Act = (events) => events.onRecovered();
const removed: Act = (events) => events.onRemoved();

for (
  const [name, acts, reported, fault] of [
    ["a value once, however often it is repeated", [one, one], [], ""],
    ["another value", [two], ["02", "value"], ""],
    ["nothing while the source is well", [reached, recovered, one], [], ""],
    ["a fault once, and its end once", [torn, torn, one, one], ["torn", "recovered"], ""],
    ["that the last value is good again", [torn, recovered, recovered], ["torn", "recovered"], ""],
    ["no recovery where another value ends a fault", [torn, two], ["torn", "02", "value"], ""],
    ["an outage once, and its end", [away, away, reached], ["away", "recovered"], ""],
    [
      "a rejection again after an outage",
      [torn, away, reached, torn],
      ["torn", "away"],
      "torn",
    ],
    ["a bad value after an outage", [away, torn], ["away", "torn"], "torn"],
    ["a removed value to its users when it is back", [removed, one], [
      "removed",
      "none",
      "value",
    ], ""],
  ] as const
) {
  test(`Subscription reports ${name}`, () => {
    const it = follow();
    one(it.events);
    assert.deepEqual(it.reported.splice(0), ["01", "value"]);
    const { held } = it.subscription;
    for (const act of acts) act(it.events);
    assert.deepEqual(it.reported, reported);
    assert.equal(it.subscription.fault, fault);
    // The held object differs exactly when the value does.
    assert.equal(it.subscription.held === held, !(acts as readonly Act[]).includes(two));
  });
}

test("Subscription reports no recovery before the first value", () => {
  const { reported, events } = follow();
  for (const act of [away, reached, torn, recovered]) act(events);
  assert.deepEqual(reported, ["away", "torn"]);
});

test("Subscription reports once why a Workload API withdrew its secrets", () => {
  const { reported, events, subscription } = follow(secretRef("web", { source: WORKLOAD }));
  one(events);
  events.onRemoved("nothing is registered");
  events.onUnreachable("nothing is registered");
  assert.deepEqual(reported.splice(0), ["01", "value", "nothing is registered", "none"]);
  assert.equal(subscription.held, undefined);
  one(events);
  assert.deepEqual(reported, ["01", "value"]);
});

test("Subscription reports nothing after its end", () => {
  const { reported, events, subscription } = follow();
  one(events);
  reported.length = 0;
  subscription.close();
  for (const act of [two, torn, away, reached, recovered, removed]) act(events);
  assert.deepEqual(reported, []);
});
