/** `/traffic`: the traffic table, the last refusals and the slowest requests. @module */

import { noTraffic, type TrafficNumbers, trafficQuantileMs } from "../base/mod.ts";
import type { MergedView } from "./merge.ts";

/** Rows by number of requests, most first. */
export function trafficShown(
  { traffic, refusing }: Pick<MergedView, "traffic" | "refusing">,
  { counts: withCounts }: { readonly counts: boolean },
): unknown {
  const { sinceMs, recentMs, rows, refusals, slow } = traffic;
  const sorted = [...rows].sort((a, b) => b.requests - a.requests);
  return {
    sinceMs,
    recentMs,
    rows: sorted.map((row) => {
      const { direction, caller, upstream, target, endpoint, route } = row;
      return {
        direction,
        caller,
        upstream,
        target,
        endpoint,
        route,
        ...numbersShown(row),
        receivedBytes: row.receivedBytes,
        sentBytes: row.sentBytes,
        open: row.open,
        ...row.faults && { faults: row.faults },
        recent: numbersShown(row.recent ?? NO_REQUESTS),
        ...withCounts && { counts: [...row.counts.entries()].filter(([, count]) => count > 0) },
      };
    }),
    refusing: refusing.map((one) => ({ ...one, at: new Date(one.at).toISOString() })),
    refusals: refusals.map((one) => ({ ...one, at: new Date(one.at).toISOString() })),
    slow: slow.map((one) => ({
      ...one,
      at: new Date(one.at).toISOString(),
      durationMs: rounded(one.durationMs),
    })),
  };
}

const NO_REQUESTS: TrafficNumbers = { requests: 0, errors: 0, counts: noTraffic() };

function numbersShown({ requests, errors, counts }: TrafficNumbers): object {
  return {
    requests,
    errors,
    p50Ms: rounded(trafficQuantileMs(counts, 0.5)),
    p99Ms: rounded(trafficQuantileMs(counts, 0.99)),
  };
}

/** Three digits say as much as the buckets. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(3));
}
