import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "../../test/kit/clock/clock.ts";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { snapshotOf } from "../../test/kit/engine/snapshots.ts";
import { type NewEvent, noTraffic, silentLog } from "../base/mod.ts";
import { NO_TRAFFIC, type RefusalView, type TrafficRowView } from "../proxy/mod.ts";
import { EffectWatch } from "./effect_watch.ts";
import { EventJournal } from "./journal.ts";

const SNAPSHOT = snapshotOf({ ca: createAuthority(), service: "db" });
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
    at: 0,
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

async function effectOf(event: NewEvent, before: readonly Path[], after: readonly Path[]) {
  const clock = new FakeClock();
  const journal = new EventJournal({ clock, log: silentLog });
  const answers = [viewsOf(before), viewsOf(after)];
  const views = () => Promise.resolve(answers.shift() ?? []);
  new EffectWatch({ clock, journal, views }).report([event], SNAPSHOT);
  await settle();
  await clock.advance(60_000);
  await settle();
  return { effect: journal.events[0]?.effect, asked: 2 - answers.length, pending: clock.pending };
}

const DENIED = (count: number) => [{ status: 403, code: "intention_denied", count }];
const INBOUND = { direction: "inbound", upstream: "", target: "", endpoint: "" } as const;
const DENY: NewEvent = {
  kind: "intention",
  subject: "web => db",
  text: "web => db changed from allow to deny",
  effect: "3 open connections ended",
};
const SPLIT: NewEvent = { kind: "chain", subject: "api", text: "splitter api: v2 10 % to 50 %" };
const CRITICAL: NewEvent = { kind: "endpoint", subject: "api", text: "api-2 critical (x)" };

for (
  const [name, event, before, after, want] of [
    [
      "a denial: requests and connections of the caller, of all workers",
      DENY,
      [{ rows: [{ ...INBOUND, caller: "web", faults: DENIED(4) }] }, {}],
      [
        {
          rows: [
            { ...INBOUND, caller: "web", faults: DENIED(20) },
            { ...INBOUND, caller: "other", faults: DENIED(99) },
          ],
        },
        {
          rows: [{ ...INBOUND, caller: "web", faults: DENIED(10) }],
          // They are in the rows as well.
          refusals: [{ count: 20 }, { path: "/a", count: 9 }, { code: "overloaded", count: 7 }],
        },
      ],
      "3 open connections ended, 26 refused in the minute after",
    ],
    ["a denial without requests", DENY, [{}], [{}], "3 open connections ended"],
    [
      "a denial of all",
      { ...DENY, subject: "* => db", effect: "" },
      [{}],
      [{ rows: ["a", "b"].map((caller) => ({ ...INBOUND, caller, faults: DENIED(1) })) }],
      "2 refused in the minute after",
    ],
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
    ["a split without requests", SPLIT, [{}], [{}], ""],
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
    const { effect, pending } = await effectOf(event, before, after);
    assert.deepEqual([effect, pending], [want, 0]);
  });
}

test("EffectWatch asks no data path for events whose effect is known", async () => {
  const { asked } = await effectOf({ kind: "listener", subject: "db", text: "moved" }, [{}], [{}]);
  assert.equal(asked, 0);
});

test("EffectWatch measures a bounded number of snapshots at a time", async () => {
  const clock = new FakeClock();
  const journal = new EventJournal({ clock, log: silentLog });
  let asked = 0;
  const views = () => Promise.resolve(++asked > 0 ? [] : []);
  const watch = new EffectWatch({ clock, journal, views });
  for (let at = 0; at < 100; at++) watch.report([DENY], SNAPSHOT);
  assert.equal(asked, 10);
  await settle();
  await clock.advance(60_000);
  assert.equal(asked, 20);
});
