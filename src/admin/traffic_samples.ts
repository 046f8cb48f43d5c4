/** Metrics of the traffic table: per caller, per endpoint and per target. @module */

import {
  addTraffic,
  classicTraffic,
  type Labels,
  latestExemplars,
  type Sample,
  TRAFFIC_BOUNDS_MS,
} from "../base/mod.ts";
import type { TrafficRowView, TrafficView } from "../proxy/mod.ts";

type Sum = Pick<TrafficRowView, "requests" | "errors" | "counts" | "sumMs" | "exemplars">;

interface Series {
  readonly name: string;
  readonly duration: string;
  readonly errors: string;
  /** `undefined`: the row is not counted there. */
  labels(row: TrafficRowView): Labels | undefined;
}

const CALLED = "Time from the head of a request to the end of its response, by caller";
const SENT = "Time from sending a request to the end of its response";

const SERIES: readonly Series[] = [
  {
    name: "traffic_caller",
    duration: `${CALLED}; a TCP connection counts with its whole time`,
    errors: "Requests and TCP connections of callers that failed, by caller",
    labels: ({ direction, caller }) => direction === "inbound" ? { caller } : undefined,
  },
  {
    name: "traffic_endpoint",
    duration: `${SENT}, by endpoint; a TCP connection counts with its whole time`,
    errors: "Requests and TCP connections to endpoints that failed, by endpoint",
    labels(row) {
      if (row.direction === "inbound") return undefined;
      if (isOther(row)) return { upstream: "other", target: "other", endpoint: "other" };
      const { upstream, endpoint } = row;
      return endpoint === "" ? undefined : { upstream, target: targetOf(row), endpoint };
    },
  },
  {
    name: "traffic_target",
    duration: `${SENT}, by target, as a subset is one; a TCP connection counts with its whole time`,
    errors: "Requests and TCP connections to targets that failed, by target",
    labels(row) {
      if (row.direction === "inbound") return undefined;
      if (isOther(row)) return { upstream: "other", target: "other" };
      const { upstream, target } = row;
      return target === "" ? undefined : { upstream, target: targetOf(row) };
    },
  },
];

const OTHER_HELP = "Requests and connections that count as other because the traffic table is full";

export function trafficSamples({ rows, past }: TrafficView): readonly Sample[] {
  const all = [...rows, ...past];
  return [
    ...SERIES.flatMap((series) => samplesOf(series, all)),
    ...(["inbound", "outbound"] as const).map((direction): Sample => ({
      name: "traffic_other_total",
      kind: "counter",
      help: OTHER_HELP,
      labels: { direction },
      value: rows.find((row) => row.direction === direction && isOther(row))?.requests ?? 0,
    })),
  ];
}

function samplesOf(series: Series, rows: readonly TrafficRowView[]): readonly Sample[] {
  const sums = new Map<string, { readonly labels: Labels; readonly sum: Sum }>();
  for (const row of rows) {
    const labels = series.labels(row);
    if (!labels) continue;
    const key = JSON.stringify(labels);
    const seen = sums.get(key);
    sums.set(key, { labels, sum: seen ? added(seen.sum, row) : row });
  }
  return [...sums.values()].flatMap(({ labels, sum }): readonly Sample[] => [
    {
      name: `${series.name}_duration_ms`,
      kind: "histogram",
      help: series.duration,
      labels,
      value: sum.sumMs,
      counts: classicTraffic(sum.counts),
      boundsMs: TRAFFIC_BOUNDS_MS,
      fine: sum.counts,
      ...sum.exemplars && { exemplars: sum.exemplars },
    },
    {
      name: `${series.name}_errors_total`,
      kind: "counter",
      help: series.errors,
      labels,
      value: sum.errors,
    },
  ]);
}

function added(a: Sum, b: Sum): Sum {
  return {
    requests: a.requests + b.requests,
    errors: a.errors + b.errors,
    counts: addTraffic(a.counts, b.counts),
    sumMs: a.sumMs + b.sumMs,
    exemplars: latestExemplars(a.exemplars ?? [], b.exemplars ?? []),
  };
}

/** The row of a direction that has the requests without a row of their own. */
function isOther({ direction, caller, upstream }: TrafficRowView): boolean {
  return caller === "other" && (direction === "inbound" || upstream === "");
}

/** Consul's name of the target: its key begins with the upstream, which is a label of its own. */
function targetOf({ target }: TrafficRowView): string {
  return target.slice(target.lastIndexOf("#") + 1);
}
