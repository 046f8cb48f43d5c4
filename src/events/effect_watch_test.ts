import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "../../test/kit/clock/clock.ts";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { snapshotOf } from "../../test/kit/engine/snapshots.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { type NewEvent, noTraffic, silentLog } from "../base/mod.ts";
import type { Intention } from "../policy/mod.ts";
import { NO_TRAFFIC, type RefusalView, type TrafficRowView } from "../proxy/mod.ts";
import { EffectWatch } from "./effect_watch.ts";
import { EventJournal } from "./journal.ts";
import { snapshotEvents } from "./snapshot_events.ts";

const SNAPSHOT = snapshotOf({ ca: createAuthority(), service: "db" });
const NOW_MS = new FakeClock().now();
const TARGET = (subset = "") => `service:api#${subset && `${subset}.`}api.default.default.dc1`;

interface Path {
  readonly recentMs?: number;
  readonly rows?: readonly Partial<TrafficRowView>[];
  readonly refusals?: readonly Partial<RefusalView>[];
}

function row(given: Partial<TrafficRowView>): TrafficRowView {
  return {
    direction: "outbound",
    caller: "db",
    upstream: "api",
    target: TARGET(),
    endpoint: "10.0.0.1:80",
    route: "",
    requests: 0,
    errors: 0,
    counts: noTraffic(),
    sumMs: 0,
    receivedBytes: 0,
    sentBytes: 0,
    open: 0,
    ...given,
  };
}

function refusal(given: Partial<RefusalView>): RefusalView {
  return {
    at: NOW_MS,
    direction: "inbound",
    caller: "web",
    listener: "inbound",
    code: "intention_denied",
    rule: "",
    deniedBy: "",
    path: "",
    status: 0,
    count: 1,
    ...given,
  };
}

const viewsOf = (paths: readonly Path[]) =>
  paths.map(({ rows = [], refusals = [], recentMs = 0 }) => ({
    traffic: { ...NO_TRAFFIC, recentMs, rows: rows.map(row), refusals: refusals.map(refusal) },
  }));

const CHANGED = { before: SNAPSHOT, after: SNAPSHOT };

async function effectsOf(
  events: readonly NewEvent[],
  [before, after]: readonly [readonly Path[], readonly Path[]],
  change: { readonly before: Snapshot; readonly after: Snapshot } = CHANGED,
) {
  const clock = new FakeClock();
  const journal = new EventJournal({ clock, log: silentLog });
  const answers = [viewsOf(before), viewsOf(after)];
  const views = () => Promise.resolve(answers.shift() ?? []);
  new EffectWatch({ clock, journal, views }).report(events, change);
  const pendingAt = () => journal.events.map(({ seq }) => journal.isPending(seq));
  const pending = pendingAt();
  await settle();
  await clock.advance(60_000);
  await settle();
  assert.deepEqual([clock.pending, pendingAt()], [0, events.map(() => false)]);
  const effects = journal.events.map(({ effect }) => effect);
  return { effects, asked: 2 - answers.length, pending };
}

function intention(
  from: string,
  action: Intention["action"],
  { to = "db", precedence = 9 } = {},
): Intention {
  return {
    rule: `default/${from} => default/${to} (precedence ${precedence}, ${action})`,
    source: { name: from, namespace: "default", partition: "default", peer: "" },
    action,
    precedence,
    ...action === "permissions" && { permissions: [] },
  };
}

/** The change from some intentions to others, with its events. */
function changeOf(old: readonly Intention[], next: readonly Intention[]) {
  const policy = (intentions: readonly Intention[], version: number) => ({
    ...SNAPSHOT,
    policy: { version, intentions, defaultAction: "deny" as const },
  });
  const change = { before: policy(old, 1), after: policy(next, 2) };
  return { change, events: snapshotEvents(change.before, change.after) };
}

const ALL = { precedence: 8 };
const ruleOf = (from: string, what: string, precedence = 9) =>
  `default/${from} => default/db (precedence ${precedence}, ${what})`;

for (
  const [name, old, next, before, after, want] of [
    [
      "a denial: those by its rule, of all workers",
      [intention("web", "allow")],
      [intention("web", "deny")],
      [{ refusals: [{ path: "/a", rule: ruleOf("web", "deny"), count: 4 }] }, {}],
      [
        {
          refusals: [
            { path: "/a", rule: ruleOf("web", "deny"), count: 20 },
            { caller: "other", rule: ruleOf("other", "deny"), count: 99 },
            { code: "overloaded", count: 7 },
            { direction: "outbound", rule: ruleOf("web", "deny"), count: 6 },
          ],
        },
        { refusals: [{ path: "/a", rule: ruleOf("web", "deny"), count: 10 }] },
      ],
      ["26 refused in the minute after"],
    ],
    [
      "permissions: not what one of the same denied before",
      [intention("web", "permissions")],
      [{ ...intention("web", "permissions"), tokens: [] }],
      [{
        refusals: [{ path: "/admin", rule: ruleOf("web", "permission 1: deny /admin"), count: 50 }],
      }],
      [{
        refusals: [
          { path: "/admin", rule: ruleOf("web", "permission 2: deny /admin"), count: 450 },
          { path: "/orders", rule: ruleOf("web", "permission 1: deny /orders*"), count: 3 },
          { path: "/x", rule: ruleOf("web", "no permission: default deny"), count: 2 },
        ],
      }],
      ["5 refused in the minute after"],
    ],
    [
      "permissions: what was denied long before, and is again",
      [intention("web", "permissions")],
      [{ ...intention("web", "permissions"), tokens: [] }],
      [{
        refusals: [{
          path: "/a",
          rule: ruleOf("web", "permission 1: deny /a"),
          at: NOW_MS - 61_000,
        }],
      }],
      [{ refusals: [{ path: "/a", rule: ruleOf("web", "permission 1: deny /a"), count: 8 }] }],
      ["7 refused in the minute after"],
    ],
    [
      "a removed allowance: what the rules below it deny, and not those above",
      [intention("web", "deny"), intention("*", "allow", ALL)],
      [intention("web", "deny")],
      [{ refusals: [{ rule: ruleOf("web", "deny"), count: 10 }] }],
      [{
        refusals: [
          { rule: ruleOf("web", "deny"), count: 70 },
          { caller: "api", rule: "default deny", count: 5 },
        ],
      }],
      ["5 refused in the minute after"],
    ],
    [
      "two intentions at once: each denial once",
      [intention("web", "allow")],
      [intention("*", "deny", ALL)],
      [{}],
      [{
        refusals: [
          { rule: ruleOf("*", "deny", 8), count: 3 },
          { caller: "api", rule: ruleOf("*", "deny", 8), count: 2 },
        ],
      }],
      ["5 refused in the minute after", "none refused in the minute after"],
    ],
    [
      "a list that had no room for a denial meanwhile",
      [intention("web", "allow")],
      [intention("web", "deny")],
      [{ refusals: [{ rule: ruleOf("web", "deny"), count: 40 }] }],
      [{ refusals: [{ rule: ruleOf("web", "deny"), count: 2 }] }],
      ["2 refused in the minute after"],
    ],
  ] as const satisfies readonly (readonly [
    string,
    readonly Intention[],
    readonly Intention[],
    readonly Path[],
    readonly Path[],
    readonly string[],
  ])[]
) {
  test(`EffectWatch counts the denials of ${name}`, async () => {
    const { change, events } = changeOf(old, next);
    const { effects } = await effectsOf(events, [before, after], change);
    assert.deepEqual(effects, want);
  });
}
const SPLIT: NewEvent = { kind: "chain", subject: "api", text: "splitter api: v2 10 % to 50 %" };
const CRITICAL: NewEvent = { kind: "endpoint", subject: "api", text: "api-2 critical (x)" };

for (
  const [name, event, before, after, want] of [
    [
      "a split: the shares",
      SPLIT,
      [{
        rows: [{ target: TARGET("v1"), requests: 900 }, { target: TARGET("v2"), requests: 100 }],
      }],
      [{
        rows: [
          { target: TARGET("v1"), requests: 948, errors: 1 },
          { target: TARGET("v2"), requests: 152, errors: 2 },
          { target: "", endpoint: "" },
          { upstream: "other", requests: 1_000 },
        ],
      }],
      "v1 48 %, v2 52 % of 100 requests, 3 errors in the minute after",
    ],
    [
      "a split of a service with errors: those before",
      SPLIT,
      [{
        recentMs: 90_000,
        rows: [{
          target: TARGET("v1"),
          requests: 900,
          errors: 30,
          recent: { requests: 90, errors: 30, counts: noTraffic() },
        }],
      }],
      [{ rows: [{ target: TARGET("v1"), requests: 948, errors: 50 }] }],
      "v1 100 % of 48 requests, 20 errors in the minute after, about 20 in the minute before",
    ],
    [
      "a split of one route: its own requests",
      { ...SPLIT, text: "splitter api, route routes[0] (/a*): v2 10 % to 50 %" },
      [{}],
      [{
        rows: [
          { target: TARGET("v1"), route: "routes[0]", requests: 5 },
          { target: TARGET("v1"), requests: 95 },
        ],
      }],
      "v1 100 % of 5 requests, 0 errors in the minute after",
    ],
    [
      "a split of the default route",
      { ...SPLIT, text: "splitter api, route default: v2 10 % to 50 %" },
      [{}],
      [{
        rows: [
          { target: TARGET("v1"), route: "routes[0]", requests: 5 },
          { target: TARGET("v2"), requests: 95 },
        ],
      }],
      "v2 100 % of 95 requests, 0 errors in the minute after",
    ],
    ["a split without requests", SPLIT, [{}], [{}], "no requests in the minute after"],
    [
      "an outage: requests that found no instance failed, retried ones once",
      { ...CRITICAL, effect: "no usable instance: all 2 instances fail their checks" },
      [{ rows: [{ target: "", endpoint: "", requests: 10, errors: 10 }] }],
      [{
        rows: [
          { target: "", endpoint: "", requests: 128, errors: 128 },
          {
            requests: 35,
            errors: 4,
            faults: [{ status: 0, code: "retried", count: 3 }],
          },
        ],
      }],
      "no usable instance: all 2 instances fail their checks, 119 requests failed in the minute after",
    ],
    [
      "a critical instance: where its requests go",
      CRITICAL,
      [{ rows: [{ endpoint: "a:1", requests: 50 }, { endpoint: "b:1", requests: 500 }] }],
      [{ rows: [{ endpoint: "a:1", requests: 170, errors: 1 }] }],
      "120 requests to the instances in use, 1 error in the minute after",
    ],
  ] as const satisfies readonly (readonly [
    string,
    NewEvent,
    readonly Path[],
    readonly Path[],
    string,
  ])[]
) {
  test(`EffectWatch adds the effect of ${name}`, async () => {
    const { effects, pending } = await effectsOf([event], [before, after]);
    assert.deepEqual([effects, pending], [[want], [true]]);
  });
}

test("EffectWatch asks no data path for events whose effect is known", async () => {
  const moved: NewEvent = { kind: "listener", subject: "db", text: "moved" };
  const { asked, pending } = await effectsOf([moved], [[{}], [{}]]);
  assert.deepEqual([asked, pending], [0, [false]]);
});

test("EffectWatch measures a bounded number of snapshots at a time", async () => {
  const clock = new FakeClock();
  const journal = new EventJournal({ clock, log: silentLog });
  let asked = 0;
  const views = () => Promise.resolve(++asked > 0 ? [] : []);
  const watch = new EffectWatch({ clock, journal, views });
  for (let at = 0; at < 100; at++) watch.report([SPLIT], CHANGED);
  assert.equal(asked, 10);
  assert.equal(journal.events.filter(({ seq }) => journal.isPending(seq)).length, 10);
  await settle();
  await clock.advance(60_000);
  assert.equal(asked, 20);
});

test("EffectWatch lets an effect go that cannot be measured", async () => {
  const clock = new FakeClock();
  const journal = new EventJournal({ clock, log: silentLog });
  const views = () => Promise.reject(new Error("closed"));
  new EffectWatch({ clock, journal, views }).report([SPLIT], CHANGED);
  await settle();
  assert.deepEqual([journal.events[0]?.effect, journal.isPending(1)], ["", false]);
});
