import assert from "node:assert/strict";
import { test } from "node:test";
import { Stats } from "../../base/mod.ts";
import type { ExchangeRecord } from "../../http/mod.ts";
import type { LogSamplingRule } from "../../snapshot/mod.ts";
import { LogSampler, withRate } from "./log_sampler.ts";

function request(
  changes: { readonly status?: number; readonly path?: string; readonly ms?: number } = {},
) {
  const { status = 200, path = "/", ms = 1 } = changes;
  return {
    status,
    request: { path, fields: [] },
    startedAt: 0,
    endAt: ms,
  } as unknown as ExchangeRecord;
}

const RULES: readonly LogSamplingRule[] = [
  { status: "5xx", every: 1 },
  { slowMs: 500, every: 1 },
  { isDenied: true, every: 1 },
  { path: "/health", every: 1_000 },
  { every: 4 },
];

test("LogSampler keeps what always counts, and one of N of the rest, the first one included", () => {
  const stats = new Stats();
  const sampler = new LogSampler(RULES, stats);
  const rates = (record: ExchangeRecord, count = 5) =>
    Array.from({ length: count }, () => sampler.rateOf(record));
  assert.deepEqual(rates(request()), [4, 0, 0, 0, 4]);
  assert.deepEqual(rates(request({ status: 503 })), [1, 1, 1, 1, 1]);
  assert.deepEqual(rates(request({ ms: 500 })), [1, 1, 1, 1, 1]);
  assert.deepEqual(rates(request({ path: "/healthz" }), 2), [1_000, 0]);
  assert.equal(sampler.rateOf(request({ status: 0 }), "intention_denied"), 1);
  assert.deepEqual(stats.samples().map(({ name, value }) => [name, value]), [
    ["access_log_lines_sampled_out_total", 4],
  ]);
});

test("LogSampler keeps what no rule matches", () => {
  const sampler = new LogSampler([{ status: "404", every: 10 }], new Stats());
  assert.deepEqual([request(), request()].map((record) => sampler.rateOf(record)), [1, 1]);
});

for (
  const [line, rate, wanted] of [
    ['{"a":1}\n', 100, '{"a":1,"sampled":"1/100"}\n'],
    ["{}\n", 100, '{"sampled":"1/100"}\n'],
    ["GET / 200\n", 100, "GET / 200 sampled=1/100\n"],
    ['{"a":1}\n', 1, '{"a":1}\n'],
  ] as const
) {
  test(`withRate() ${JSON.stringify(line)} of 1/${rate}`, () => {
    assert.equal(withRate(line, rate), wanted);
  });
}
