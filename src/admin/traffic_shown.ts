/** `/traffic`: the traffic table, the last refusals and the slowest requests. @module */

import { trafficQuantileMs } from "../base/mod.ts";
import type { TrafficView } from "../proxy/mod.ts";

/** Rows by number of requests, most first. */
export function trafficShown({ sinceMs, rows, refusals, slow }: TrafficView): unknown {
  const sorted = [...rows].sort((a, b) => b.requests - a.requests);
  return {
    sinceMs,
    rows: sorted.map(({ counts, sumMs: _, ...row }) => {
      const { direction, caller, upstream, target, endpoint, route, requests, errors } = row;
      return {
        direction,
        caller,
        upstream,
        target,
        endpoint,
        route,
        requests,
        errors,
        p50Ms: rounded(trafficQuantileMs(counts, 0.5)),
        p99Ms: rounded(trafficQuantileMs(counts, 0.99)),
        receivedBytes: row.receivedBytes,
        sentBytes: row.sentBytes,
        open: row.open,
      };
    }),
    refusals: refusals.map((one) => ({ ...one, at: new Date(one.at).toISOString() })),
    slow: slow.map((one) => ({
      ...one,
      at: new Date(one.at).toISOString(),
      durationMs: rounded(one.durationMs),
    })),
  };
}

/** Three digits say as much as the buckets. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(3));
}
