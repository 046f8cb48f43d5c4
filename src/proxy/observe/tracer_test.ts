import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../base/mod.ts";
import {
  type ExchangeRecord,
  type Fields,
  readTrace,
  type RequestHead,
  TRACE_FORMS,
} from "../../http/mod.ts";
import { exchangeRecord } from "../../../test/kit/wire/exchange_records.ts";
import { spanIn } from "../../plugin/mod.ts";
import { type FinishedSpan, Tracer } from "./tracer.ts";

const LISTENER = { direction: "outbound", name: "db", destination: "db" } as const;

/** Takes a share of the requests. */
function tracerOf(ratio: number, take: (span: FinishedSpan) => void = () => {}) {
  return new Tracer({
    version: 1,
    sampling: { ratio, atMost: 1, obeysCaller: true },
    propagation: { read: TRACE_FORMS, write: ["tracecontext"], writesCarried: true },
    connections: false,
    collector: { format: "otlp_protobuf", url: "http://127.0.0.1:4318/v1/traces", headers: {} },
    service: "web",
    resource: {},
  }, { clock: systemClock, take });
}

/** Begins `count` requests without a trace of their caller. */
function begin(ratio: number, count: number) {
  const tracer = tracerOf(ratio);
  return Array.from({ length: count }, () => {
    const fields: Fields = ["accept", "*/*", "accept"];
    const record = {} as ExchangeRecord;
    tracer.begin({ fields } as unknown as RequestHead, record, LISTENER);
    const { parent } = readTrace(fields, TRACE_FORMS);
    return { parent, trace: record.trace };
  });
}

test("Tracer samples its share of new traces, and every request carries ids of its own", () => {
  const requests = begin(0.25, 4_000);
  const sampled = requests.filter(({ trace }) => trace);
  // More than ten standard deviations.
  assert.ok(Math.abs(sampled.length - 1_000) < 300, String(sampled.length));
  for (const { parent, trace } of requests) {
    assert.equal(parent?.isSampled, trace !== undefined);
    if (trace) assert.deepEqual([parent?.traceId, parent?.spanId], [trace.traceId, trace.spanId]);
    // Another sampler by trace id comes to the same decision.
    const share = Number.parseInt(parent?.traceId.slice(-13) ?? "", 16) / 2 ** 52;
    assert.equal(share < 0.25, trace !== undefined);
  }
  for (const id of ["traceId", "spanId"] as const) {
    assert.equal(new Set(requests.map(({ parent }) => parent?.[id])).size, requests.length);
  }
});

for (const [ratio, count] of [[0, 0], [1, 200]] as const) {
  test(`Tracer with a share of ${ratio} samples ${count} of 200`, () => {
    assert.equal(begin(ratio, 200).filter(({ trace }) => trace).length, count);
  });
}

test("Tracer takes the spans of plugins after that of their exchange, below it and within its time", () => {
  const spans: FinishedSpan[] = [];
  const tracer = tracerOf(1, (span) => void spans.push(span));
  const record = exchangeRecord({ startedAt: systemClock.monotonic() });
  tracer.begin({ fields: [] } as unknown as RequestHead, record, LISTENER);
  spanIn(record.trace, "lookup").end({ hits: 2 });
  spanIn(record.trace, "open");
  record.endAt = systemClock.monotonic();
  tracer.exchanges.ended?.(record);
  const [exchange, ...children] = spans;
  assert.deepEqual(children.map(({ name, kind, attributes }) => [name, kind, attributes]), [
    ["lookup", "internal", ["hits", 2]],
    ["open", "internal", []],
  ]);
  for (const { parentId, traceId, durationMs } of children) {
    assert.deepEqual([parentId, traceId], [exchange?.spanId, exchange?.traceId]);
    assert.ok(durationMs >= 0 && durationMs <= (exchange?.durationMs ?? 0), `${durationMs}`);
  }
});
