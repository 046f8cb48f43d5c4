import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { declared, targetOf } from "../../../test/kit/engine/snapshots.ts";
import type { EndpointView, RefusingView } from "../../proxy/mod.ts";
import { measuredData } from "../measured.ts";
import { pageData } from "./page_data.ts";
import { TrafficHistory } from "./traffic_history.ts";

const DB = "db.default.dc1";

const endpoint = (id: string, fields: Partial<EndpointView> = {}): EndpointView => ({
  target: DB,
  id,
  address: `10.0.0.1:${id}`,
  weight: 1,
  active: 0,
  failures: 0,
  lastFailure: "",
  ejectedForMs: 0,
  lastResort: false,
  ...fields,
});

async function dataOf(
  endpoints: readonly EndpointView[],
  { refusing = [], errors = 0 }: { refusing?: readonly RefusingView[]; errors?: number } = {},
) {
  const view = fakeAdminView();
  const base = view.snapshot();
  const [first] = await view.data();
  assert.ok(base && first);
  const rule = (name: string, action: "allow" | "deny") => ({
    rule: `default/${name} => default/web (precedence 9, ${action})`,
    source: { name, namespace: "default", partition: "default", peer: "" },
    action,
    precedence: 9,
  });
  const snapshot = {
    ...base,
    policy: { ...base.policy, intentions: [rule("api", "allow"), rule("batch", "deny")] },
    ...declared({ name: "db", targets: [DB] }),
    targets: { [DB]: targetOf({ name: DB, uris: [], ports: [] }) },
  };
  view.snapshot = () => snapshot;
  const row = { direction: "outbound", caller: "web", upstream: "db", target: DB } as const;
  const [any] = first.traffic.rows;
  assert.ok(any);
  const rows = [{ ...any, ...row, endpoint: "10.0.0.1:1", requests: 10, errors }];
  const traffic = errors === 0 ? first.traffic : { ...first.traffic, rows };
  view.data = () => Promise.resolve([{ ...first, endpoints, refusing, traffic }]);
  const merged = await measuredData(view);
  return await pageData(view, merged, new TrafficHistory().read(merged.traffic, 5_000));
}

test("pageData() has the health of each endpoint, and why one is not used", async () => {
  const { upstreams: { rows: [db] }, state } = await dataOf([
    endpoint("1"),
    endpoint("2", { ejectedForMs: 8_000, failures: 5, lastFailure: "status 503" }),
    endpoint("3", { failures: 3, lastFailure: "connection refused" }),
    endpoint("4", { lastResort: true }),
  ]);
  const shown = db?.targets[0]?.endpoints.map(({ id, state, why }) => [id, state.word, why]);
  assert.deepEqual(shown, [
    [
      "2",
      "ejected",
      "ejected for 8s more: the last 5 connections failed, the last of them was answered 503 by the " +
      "other side",
    ],
    [
      "3",
      "failing",
      "the last 3 connections failed, the last of them failed on the other side: connection refused",
    ],
    ["4", "last resort", "Consul no longer lists it; it is dialled when no other endpoint is left"],
    ["1", "healthy", ""],
  ]);
  assert.deepEqual([db?.name, db?.state.word, state.level], ["db", "in part", "warn"]);
});

for (const [errors, level] of [[1, "warn"], [9, "bad"]] as const) {
  test(`pageData() shows that an upstream refuses ${errors} of 10 requests`, async () => {
    const refusing = {
      upstream: "db",
      caller: "web",
      code: "intention_denied",
      deniedBy: "db",
      unit: "requests",
      count: errors,
      at: 0,
    } as const;
    const { upstreams: { rows: [db] }, troubles } = await dataOf([endpoint("1")], {
      refusing: [refusing],
      errors,
    });
    assert.deepEqual(db?.state, { level, word: "refuses" });
    const times = errors === 1 ? "1 request" : `${errors} requests`;
    assert.ok(
      troubles.some((text) => text.startsWith(`db refuses web (intention_denied), ${times} in`)),
      troubles.join("\n"),
    );
  });
}

test("pageData() bounds the endpoints of a target, unhealthy ones first", async () => {
  const many = Array.from({ length: 40 }, (_, at) => endpoint(String(at)));
  const { upstreams: { rows: [db] } } = await dataOf([
    ...many,
    endpoint("bad", { ejectedForMs: 1 }),
  ]);
  const [target] = db?.targets ?? [];
  assert.deepEqual([target?.endpoints.length, target?.more, target?.endpoints[0]?.id], [
    16,
    25,
    "bad",
  ]);
});

test("pageData() counts the requests that each intention decides about, and callers", async () => {
  const { intentions, callers, refusals } = await dataOf([]);
  assert.deepEqual(
    intentions.rows.map(({ source, action, requests }) => [source, action, requests]),
    [["api", "allow", 10], ["batch", "deny", 0]],
  );
  assert.deepEqual(callers.rows.map(({ name, open, flow }) => [name, open, flow.requests]), [
    ["api", 1, 10],
  ]);
  assert.equal(refusals.rows[0]?.caller, "batch");
});
