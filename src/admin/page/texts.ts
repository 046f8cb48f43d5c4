/** Numbers as the page at `/` writes them: three digits at most, with their unit. @module */

import { formatSpanMs } from "../../base/mod.ts";
import type { FlowShown, TrafficShown } from "./traffic_history.ts";
import type { Level } from "./upstreams_shown.ts";

/** `850 ms`, `12s`, `3h12m`. */
export function spanText(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : formatSpanMs(ms);
}

/** The period of rates and latencies: `last 10 s`, `12s since the start`. */
export function periodText(
  { periodMs, isWhole }: Pick<TrafficShown, "periodMs" | "isWhole">,
): string {
  return isWhole
    ? `${spanText(periodMs)} since the start`
    : `last ${Math.round(periodMs / 1_000)} s`;
}

/** `0 B`, `1.2 kB`, `340 MB`. */
export function bytesText(bytes: number): string {
  return scaled(bytes, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

/** `850`, `1.2 k`, `3.4 M`. */
export function countText(count: number): string {
  return scaled(count, ["", "k", "M", "G", "T"]).trimEnd();
}

function scaled(amount: number, units: readonly string[]): string {
  let unit = 0;
  let left = amount;
  while (left >= 999.5 && unit < units.length - 1) {
    left /= 1_000;
    unit++;
  }
  return `${unit > 0 && left < 9.95 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`;
}

/** Without its unit: `0`, `0.2`, `12`, `1.5 k`. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "< 0.1";
  return perSecond < 9.95 ? perSecond.toFixed(1) : countText(perSecond);
}

/** `0.4 ms`, `12 ms`, `1.3 s`. */
export function latencyText(ms: number): string {
  if (ms < 0.05) return "< 0.1 ms";
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  return ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 9_950 ? 1 : 0)} s`;
}

/** `0 %`, `0.3 %`, `12 %`. */
export function percentText(share: number): string {
  const percent = share * 100;
  if (percent === 0) return "0 %";
  if (percent < 0.05) return "< 0.1 %";
  return `${percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** From which share of errors on the number is red. */
const MANY_ERRORS = 0.05;

export function errorLevel({ errorShare }: Pick<FlowShown, "errorShare">): Level {
  return errorShare >= MANY_ERRORS ? "bad" : errorShare > 0 ? "warn" : "idle";
}
