import assert from "node:assert/strict";
import { test } from "node:test";
import { formatDurationMs, formatSpanMs, parseDurationMs } from "./duration.ts";

for (
  const [text, want] of [
    ["5s", 5_000],
    ["90s", 90_000],
    ["1m30s", 90_000],
    ["1h1m1s1ms", 3_661_001],
    ["250ms", 250],
    ["1.5h", 5_400_000],
    ["1.s", 1_000],
    [".5s", 500],
    ["7ns", 7e-6],
    ["10us", 0.01],
    ["10µs", 0.01],
    ["10μs", 0.01],
    ["-1s", -1_000],
    ["-1m30s", -90_000],
    ["+2s", 2_000],
    ["0", 0],
    ["-0", 0],
    ["-0s", 0],
    ["0s", 0],
    ["2540400h", 9_145_440_000_000],
    ["", undefined],
    ["5", undefined],
    ["s", undefined],
    [".s", undefined],
    ["5 s", undefined],
    [" 5s", undefined],
    ["5s ", undefined],
    ["5S", undefined],
    ["5d", undefined],
    ["1m-30s", undefined],
    ["--1s", undefined],
    ["1e3s", undefined],
    ["0x5s", undefined],
    ["1.2.3s", undefined],
    ["5s\n", undefined],
    ["9999999h", undefined],
    [`${"9".repeat(400)}h`, undefined],
    [`${"1h".repeat(10_000)}x`, undefined],
    ["٣s", undefined],
  ] as [string, number | undefined][]
) {
  test(`parseDurationMs() of ${JSON.stringify(text.slice(0, 40))} is ${want}`, () => {
    const got = parseDurationMs(text);
    if (want === undefined || want === 0) return assert.equal(got, want);
    assert.ok(got !== undefined && Math.abs(got - want) <= Math.abs(want) * 1e-12, String(got));
  });
}

for (
  const [ms, want] of [[0, "0ms"], [1_500, "1500ms"], [0.6, "1ms"], [600_000, "600000ms"]] as const
) {
  test(`formatDurationMs() writes ${ms} as ${want}`, () => {
    assert.equal(formatDurationMs(ms), want);
    assert.equal(parseDurationMs(want), Math.round(ms));
  });
}

const [S, M, H, D] = [1_000, 60_000, 3_600_000, 86_400_000];
for (
  const [ms, want] of [
    [0, "0s"],
    [999, "0s"],
    [59 * S, "59s"],
    [4 * M + 5 * S + 999, "4m5s"],
    [3 * H + 12 * M + 59 * S, "3h12m"],
    [24 * H - 1, "23h59m"],
    [2 * D + 59 * M, "2d"],
    [90 * D + 5 * H, "90d5h"],
  ] as const
) {
  test(`formatSpanMs() writes ${ms} as ${want}`, () => assert.equal(formatSpanMs(ms), want));
}
