import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { callAs, sendThrough } from "../../../test/kit/engine/memory_caller.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  targetOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { exchangeRecord, requestHead } from "../../../test/kit/wire/exchange_records.ts";
import {
  addFaults,
  seededRandom,
  trafficQuantile,
  trafficQuantileMs,
  TrafficRow,
} from "../../base/mod.ts";
import type { ExchangeConnection } from "../../http/mod.ts";
import { TrafficTable } from "./traffic_table.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
const INBOUND = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});

function outbound(ports: readonly number[], http = true) {
  return snapshotOf({
    ca: CA,
    service: "web",
    upstreams: [{ name: "db", ...http && { http: httpRules("http") }, targets: ["db"] }],
    targets: [targetOf({ name: "db", uris: [DB.uri], ports: [...ports] })],
  });
}

function shown({ path }: MemoryPath) {
  const { rows } = path.view({ connections: false }).traffic;
  return rows.map(({ counts: _, sumMs: __, recent: ___, faults: ____, ...row }) => row);
}

const NUMBERS = { requests: 0, errors: 0, receivedBytes: 0, sentBytes: 0, open: 0 };
const CALLER = { upstream: "", target: "", endpoint: "", route: "", ...NUMBERS };

test("requests from the mesh count by caller, denied ones as errors with their refusal", async () => {
  await using path = await startMemoryPath(withInbound(INBOUND, { http: httpRules("http") }));
  const web = callAs("web", path, CA);
  const app = await sendThrough(
    web,
    "POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 3\r\n\r\nabc",
    path,
  );
  const row = { direction: "inbound", caller: "web", ...CALLER };
  assert.deepEqual(shown(path), [{ ...row, open: 1 }]);
  await path.clock.advance(100);
  app.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await settle();
  assert.deepEqual(shown(path), [{ ...row, requests: 1, receivedBytes: 3, sentBytes: 2 }]);
  const batch = callAs("batch", path, CA);
  for (const query of ["1", "2"]) {
    batch.send(`GET /secret?token=${query} HTTP/1.1\r\nHost: db\r\n\r\n`);
    await settle();
  }
  const { rows, refusals, slow } = path.path.view({ connections: false }).traffic;
  assert.deepEqual(rows.map(({ caller, requests, errors }) => [caller, requests, errors]), [
    ["web", 1, 0],
    ["batch", 2, 2],
  ]);
  assert.deepEqual(rows.map(({ faults }) => faults), [
    undefined,
    [{ status: 403, code: "intention_denied", count: 2 }],
  ]);
  assert.ok(Math.abs(trafficQuantileMs(rows[0]?.counts ?? new Float64Array(), 0.5) - 100) < 10);
  assert.deepEqual(refusals.map(({ at: _, rule: __, ...rest }) => rest), [{
    direction: "inbound",
    caller: "batch",
    listener: "inbound",
    code: "intention_denied",
    deniedBy: "",
    path: "/secret",
    status: 403,
    count: 2,
  }]);
  assert.deepEqual(slow.map(({ caller, path, durationMs }) => [caller, path, durationMs]), [
    ["web", "/a", 100],
  ]);
  for (const caller of [web, batch]) caller.connection.close();
  app.connection.close();
  await settle();
});

test("requests to an upstream count by endpoint, a denial by its proxy as its refusal", async () => {
  await using path = await startMemoryPath(outbound([1, 2]), { random: seededRandom(7) });
  const caller = path.engine.call(path.port("db"));
  for (const answer of ["200 OK\r\n", "403 Forbidden\r\nx-postern-denied-by: rate_limited\r\n"]) {
    caller.send("GET /x HTTP/1.1\r\nHost: db\r\n\r\n");
    await settle();
    const server = path.engine.lastDial.connect(presented(DB));
    await settle();
    server.send(`HTTP/1.1 ${answer}Content-Length: 0\r\n\r\n`);
    await settle();
  }
  const row = { direction: "outbound", caller: "web", upstream: "db", target: "db", route: "" };
  assert.deepEqual(shown(path), [
    { ...row, endpoint: "127.0.0.1:2", ...NUMBERS, requests: 1 },
    { ...row, endpoint: "127.0.0.1:1", ...NUMBERS, requests: 1, errors: 1 },
  ]);
  const [refusal] = path.path.view({ connections: false }).traffic.refusals;
  const { listener, code, deniedBy, rule, status } = refusal ?? {};
  assert.deepEqual([listener, code, deniedBy, rule, status], ["db", "rate_limited", "db", "", 403]);
  await path.set(outbound([2]));
  assert.deepEqual(shown(path).map(({ endpoint }) => endpoint), ["127.0.0.1:2"]);
  caller.connection.close();
  await settle();
});

test("requests that no instance could take are among the refusals", async () => {
  await using path = await startMemoryPath(outbound([]));
  const caller = path.engine.call(path.port("db"));
  caller.send("GET /x?token=1 HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  const { refusals } = path.path.view({ connections: false }).traffic;
  assert.deepEqual(
    refusals.map(({ listener, code, path, status }) => [listener, code, path, status]),
    [
      ["db", "no_endpoint", "/x", 503],
    ],
  );
  caller.connection.close();
  await settle();
});

test("a connection counts as a request of its row, with the bytes that it has carried so far", async () => {
  await using path = await startMemoryPath(outbound([1], false));
  const caller = path.engine.call(path.port("db"));
  caller.send("abc");
  await settle();
  const server = path.engine.lastDial.connect(presented(DB));
  await settle();
  const row = {
    direction: "outbound",
    caller: "web",
    upstream: "db",
    target: "db",
    endpoint: "127.0.0.1:1",
    route: "",
    ...NUMBERS,
    receivedBytes: 3,
  };
  assert.deepEqual(shown(path), [{ ...row, open: 1 }]);
  server.connection.reset();
  await settle();
  assert.deepEqual(shown(path), [{ ...row, requests: 1, errors: 1 }]);
});

test("strangers have no rows, and their refusals take one place", async () => {
  await using path = await startMemoryPath(INBOUND);
  for (let i = 0; i < 3; i++) {
    const port = Number(path.path.listeners()[0]?.address.split(":").at(-1));
    path.engine.callSecurely(port).prove(presented(createAuthority().issueLeaf({ service: "x" })));
    await settle();
  }
  const { rows, refusals } = path.path.view({ connections: false }).traffic;
  assert.deepEqual(rows, []);
  assert.deepEqual(refusals.map(({ code, count }) => [code, count]), [["chain_untrusted", 3]]);
});

function rig() {
  const clock = new FakeClock();
  const table = new TrafficTable(clock);
  const ask = (
    caller: string,
    path = "/",
    given: Parameters<typeof exchangeRecord>[0] = {},
    fields: string[] = [],
  ) => {
    const connection: ExchangeConnection = {
      direction: "inbound",
      listener: "inbound",
      destination: "db",
      caller,
      traffic: undefined,
    };
    const downstream = { ...exchangeRecord().downstream, connection };
    const record = exchangeRecord(given, { downstream, request: requestHead({ path, fields }) });
    table.exchanges.began?.(record);
    table.exchanges.ended?.(record);
  };
  return { clock, table, ask, view: () => table.view([]) };
}

test("the table has a limit: later callers count together until idle rows give way", async () => {
  const { clock, ask, view } = rig();
  for (let i = 0; i < 502; i++) ask(`web-${i}`);
  const other = () => view().rows.find(({ caller }) => caller === "other");
  assert.deepEqual([view().rows.length, other()?.requests], [501, 2]);
  await clock.advance(11 * 60_000);
  ask("web-600");
  assert.deepEqual(view().rows.map(({ caller }) => caller), ["web-600", "other"]);
});

test("a caller with many refusals does not displace those of others", () => {
  const { ask, view } = rig();
  ask("quiet", "/once", { code: "intention_denied", status: 403 });
  for (let i = 0; i < 1_000; i++) ask("loud", `/${i}`, { code: "intention_denied", status: 403 });
  const { refusals } = view();
  assert.deepEqual([refusals.length, refusals.at(-1)?.path, refusals[0]?.path], [
    51,
    "/once",
    "/999",
  ]);
});

for (
  const [name, given, want] of [
    ["a response with 200", {}, 0],
    ["a response with 404", { status: 404 }, 0],
    ["a response with 502", { status: 502 }, 1],
    ["a caller that left", { code: "downstream_reset", status: 0 }, 0],
    ["a limit", { code: "limit_reached", status: 503 }, 1],
    ["grpc-status 14", { responseTrailers: ["grpc-status", "14", "grpc-status"] }, 1],
    ["grpc-status 5", { responseTrailers: ["grpc-status", "5", "grpc-status"] }, 0],
  ] as const
) {
  test(`an error of a row: ${name}`, () => {
    const { ask, view } = rig();
    ask("web", "/", given as Parameters<typeof exchangeRecord>[0]);
    assert.equal(view().rows[0]?.errors, want);
  });
}

test("trafficQuantileMs() is within the width of a bucket, and 0 without durations", () => {
  const row = new TrafficRow({ direction: "inbound", ...CALLER, caller: "web" }, 0);
  assert.equal(trafficQuantileMs(row.counts, 0.99), 0);
  for (let ms = 1; ms <= 1_000; ms++) row.ended(ms, false, 0);
  for (const quantile of [0.1, 0.5, 0.9, 0.99]) {
    const off = trafficQuantileMs(row.counts, quantile) / (quantile * 1_000);
    assert.ok(off > 0.9 && off < 1.1, `${quantile}: ${off}`);
  }
  for (const ms of [0, NaN, -1, 1e12]) row.ended(ms, false, 0);
  assert.equal(row.requests, 1_004);
});

test("trafficQuantile() is the bound of a bucket with few durations, and lies within one with many", () => {
  const row = new TrafficRow({ direction: "inbound", ...CALLER, caller: "web" }, 0);
  const { counts } = row;
  assert.deepEqual(trafficQuantile(counts, 0.99), { ms: 0, isBound: false });
  for (let times = 0; times < 20; times++) row.ended(times === 0 ? 12 : 2, false, 0);
  const [p50, p99] = [0.5, 0.99].map((quantile) => trafficQuantile(counts, quantile));
  assert.deepEqual([p50?.isBound, p99?.isBound], [false, true]);
  assert.ok(p99 && p99.ms >= 12 && p99.ms < 12 * 2 ** 0.25, `${p99?.ms}`);
  row.ended(1e9, false, 0);
  assert.equal(trafficQuantile(counts, 1).isBound, false);
});

test("a row shows its requests of the last one to two minutes apart", async () => {
  const { clock, ask, view } = rig();
  const recent = () => [view().recentMs, view().rows[0]?.recent?.requests ?? 0];
  await clock.advance(60_000 - clock.monotonic() % 60_000);
  ask("web", "/", { endAt: clock.monotonic(), startedAt: clock.monotonic() });
  await clock.advance(59_000);
  assert.equal(recent()[1], 1);
  await clock.advance(60_000);
  assert.deepEqual(recent(), [119_000, 1]);
  await clock.advance(1_000);
  assert.deepEqual(recent(), [60_000, 0]);
  ask("web", "/", { endAt: clock.monotonic(), startedAt: clock.monotonic() });
  await clock.advance(600_000);
  assert.deepEqual(recent(), [0, 0]);
  assert.equal(view().rows[0]?.requests, 2);
});

test("rows that give way leave their numbers to the endpoint or the target", async () => {
  await using path = await startMemoryPath(outbound([1, 2]), { random: seededRandom(7) });
  const caller = path.engine.call(path.port("db"));
  for (let i = 0; i < 2; i++) {
    caller.send("GET /x HTTP/1.1\r\nHost: db\r\n\r\n");
    await settle();
    const server = path.engine.lastDial.connect(presented(DB));
    await settle();
    server.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
    await settle();
  }
  await path.set(outbound([2]));
  const { rows, past } = path.path.view({ connections: false }).traffic;
  const key = { direction: "outbound", caller: "", upstream: "db", target: "db", route: "" };
  assert.equal(rows.length, 1);
  assert.deepEqual(past.map(({ counts: _, sumMs: __, recent: ___, faults: ____, ...row }) => row), [
    { ...key, endpoint: "", ...NUMBERS, requests: 1, errors: 1 },
  ]);
  await path.set(outbound([]));
  assert.deepEqual(path.path.view({ connections: false }).traffic.rows, []);
  caller.connection.close();
  await settle();
});

test("a request with a trace is the exemplar of its bucket for a while", () => {
  const { ask, view } = rig();
  const traced = (
    trace: string,
  ) => ["traceparent", `00-${trace}-b7ad6b7169203331-01`, "traceparent"];
  const exemplars = () => (view().rows[0]?.exemplars ?? []).map((one) => one?.traceId[0]);
  ask("web");
  assert.deepEqual(exemplars(), []);
  // The pause after a request without a trace.
  ask("web", "/", {}, traced("a".repeat(32)));
  assert.deepEqual(exemplars(), []);
  ask("web", "/", { endAt: 2_012.5, startedAt: 2_000 }, traced("b".repeat(32)));
  ask("web", "/", { endAt: 2_112.5, startedAt: 2_000 }, traced("c".repeat(32)));
  ask("web", "/", { endAt: 2_013.5, startedAt: 2_001 }, traced("d".repeat(32)));
  assert.deepEqual(Object.values(exemplars()).filter(Boolean), ["b", "c"]);
});

test("TrafficRow counts seven reasons of errors, and the rest as other", () => {
  const row = new TrafficRow({ direction: "inbound", ...CALLER, caller: "web" }, 0);
  for (const status of [500, 501, 502, 503, 504, 505, 506, 507, 508, 503]) row.failed(status, "");
  assert.equal(row.faults.length, 8);
  assert.deepEqual(row.faults.filter(({ count }) => count > 1), [
    { status: 503, code: "", count: 2 },
    { status: 0, code: "other", count: 2 },
  ]);
  const sums = addFaults(row.faults, [{ status: 503, code: "", count: 5 }]);
  assert.equal(sums.find(({ status }) => status === 503)?.count, 7);
});
