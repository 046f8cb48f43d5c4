import { strict as assert } from "node:assert";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import {
  DOWNSTREAM,
  exchangeRecord,
  requestHead,
} from "../../../test/kit/wire/exchange_records.ts";
import { addField, type ExchangeConnection, type ExchangeRecord } from "../../http/mod.ts";
import { ConnectionRecord } from "./connection_record.ts";
import { isShownField, Tap, type TapFilter } from "./tap.ts";

const INBOUND: ExchangeConnection = {
  direction: "inbound",
  listener: "inbound",
  destination: "db",
  caller: "web",
  traffic: undefined,
};
const OUTBOUND: ExchangeConnection = {
  direction: "outbound",
  listener: "service:default/default/db",
  destination: "db",
  caller: "web",
  traffic: undefined,
};

interface Batch {
  readonly lines: readonly Record<string, unknown>[];
  readonly dropped: number;
}

function openTap(filter: Partial<TapFilter> = {}, taken = Promise.resolve()) {
  const clock = new FakeClock();
  const batches: Batch[] = [];
  const tap = new Tap({ id: 1, filter: { headers: [], ...filter } }, {
    clock,
    take(_, lines, dropped) {
      const all = lines === "" ? [] : lines.split("\n").map((line) => JSON.parse(line));
      batches.push({ lines: all, dropped });
      return taken;
    },
  });
  return { clock, tap, batches };
}

function request(
  given: Partial<ExchangeRecord> = {},
  connection: ExchangeConnection = INBOUND,
  head = requestHead(),
): ExchangeRecord {
  return exchangeRecord(given, { request: head, downstream: { ...DOWNSTREAM, connection } });
}

const DENIED = { status: 403, code: "intention_denied", endAt: 1_005 } as const;

for (
  const [name, filter, wanted, others] of [
    ["a caller", { source: "web" }, [request()], [request({}, { ...INBOUND, caller: "shop" })]],
    ["the address of a caller", { source: "10.0.0.7" }, [request()], []],
    ["an upstream", { upstream: "db" }, [request({}, OUTBOUND)], [request()]],
    ["a path", { path: "/it" }, [request()], [request({}, INBOUND, requestHead({ path: "/x" }))]],
    ["a status", { status: "503" }, [request({ status: 503 })], [request({ status: 500 })]],
    ["a class", { status: "5xx" }, [request({ status: 503 })], [request({ status: 404 })]],
    ["refusals", { isDenied: true }, [request(DENIED)], [
      request(),
      request({ status: 403 }),
      request({ status: 503, code: "endpoint_refused" }),
    ]],
    ["slow ones", { slowMs: 100 }, [request({ endAt: 1_100 })], [request({ endAt: 1_099 })]],
    ["several conditions", { source: "web", status: "200" }, [request()], [
      request({ status: 503 }),
      request({}, { ...INBOUND, caller: "shop" }),
    ]],
  ] as const
) {
  test(`Tap passes on ${name}, and nothing else`, async () => {
    const { clock, tap, batches } = openTap(filter);
    for (const record of [...wanted, ...others]) tap.exchanges.ended?.(record);
    await clock.advance(100);
    assert.equal(batches.flatMap(({ lines }) => lines).length, wanted.length);
  });
}

test("Tap has one line for a request: no query, no body, no header that is not named", async () => {
  const { clock, tap, batches } = openTap({ headers: ["x-request-id"] });
  const head = requestHead();
  addField(head.fields, "authorization", "Bearer abcdef");
  tap.exchanges.ended?.(request({ endAt: 1_012.345, receivedBytes: 3 }, INBOUND, head));
  await clock.advance(100);
  const [line] = batches[0]?.lines ?? [];
  assert.equal(line?.path, "/items");
  assert.deepEqual(line?.headers, { "x-request-id": "0d7e" });
  assert.deepEqual([line?.caller, line?.status, line?.durationMs], ["web", 200, 12.35]);
  const text = JSON.stringify(line);
  for (const secret of ["id=5", "abcdef", "curl/8.5.0"]) assert.ok(!text.includes(secret), secret);
});

test("Tap has one line for a connection, and none for one that carried requests or a probe", async () => {
  const { clock, tap, batches } = openTap();
  const facts = { direction: "inbound", name: "inbound", destination: "db" } as const;
  const plain = new ConnectionRecord({ ...facts, http: null }, "10.0.0.7:1", clock.monotonic());
  plain.caller = "web";
  const http = new ConnectionRecord({ ...facts, http: {} }, "10.0.0.7:2", clock.monotonic());
  http.served = true;
  await clock.advance(50);
  tap.connections.ended?.(plain, { kind: "failed", code: "intention_denied", reason: "by x" });
  tap.connections.ended?.(http, { kind: "completed", by: "downstream" });
  tap.connections.ended?.(plain, { kind: "failed", code: "closed_early", reason: "" });
  await clock.advance(100);
  const lines = batches.flatMap(({ lines }) => lines);
  assert.equal(lines.length, 1);
  const [{ kind, caller, code, durationMs } = {}] = lines;
  assert.deepEqual([kind, caller, code, durationMs], ["connection", "web", "intention_denied", 50]);
});

test("Tap holds a bounded number of lines, and counts those that it drops", async () => {
  const late = Promise.withResolvers<void>();
  const { clock, tap, batches } = openTap({}, late.promise);
  for (let count = 0; count < 1_000; count++) tap.exchanges.ended?.(request());
  await clock.advance(100);
  const held = batches.flatMap(({ lines }) => lines).length;
  assert.equal(held, 400);
  assert.equal(batches.reduce((sum, { dropped }) => sum + dropped, 0), 600);
  late.resolve();
  await clock.advance(0);
  tap.exchanges.ended?.(request());
  await clock.advance(100);
  assert.equal(batches.flatMap(({ lines }) => lines).length, 401);
});

test("Tap passes on at most 500 lines a second", async () => {
  const { clock, tap, batches } = openTap();
  for (let count = 0; count < 20; count++) {
    for (let more = 0; more < 50; more++) tap.exchanges.ended?.(request());
    await Promise.resolve();
  }
  await clock.advance(100);
  assert.equal(batches.flatMap(({ lines }) => lines).length, 500);
  assert.equal(batches.reduce((sum, { dropped }) => sum + dropped, 0), 500);
});

test("Tap is silent after close()", async () => {
  const { clock, tap, batches } = openTap();
  tap.exchanges.ended?.(request());
  tap.close();
  await clock.advance(1_000);
  assert.deepEqual(batches, []);
  assert.equal(clock.pending, 0);
});

for (
  const [name, want] of [
    ["x-request-id", true],
    ["user-agent", true],
    ["authorization", false],
    ["proxy-authorization", false],
    ["cookie", false],
    ["set-cookie", false],
    ["x-consul-token", false],
    ["x-api-key", false],
    ["x-forwarded-client-cert", false],
    ["x-amz-security-token", false],
    ["X-Upper", false],
    ["a b", false],
    ["", false],
  ] as const
) {
  test(`isShownField() ${JSON.stringify(name)}: ${want}`, () => {
    assert.equal(isShownField(name), want);
  });
}
