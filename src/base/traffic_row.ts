/** One row of the traffic table: the numbers of the requests of a caller to an endpoint. @module */

/** What a row counts. Empty texts: not known, or not of that direction. */
export interface TrafficKey {
  readonly direction: "inbound" | "outbound";
  /** Service of the caller. */
  readonly caller: string;
  /** Label of the upstream, like `db` or `db?dc=dc2`; `""`: inbound. */
  readonly upstream: string;
  /** Key of the target. */
  readonly target: string;
  /** Address of the endpoint; `""`: none was reached. */
  readonly endpoint: string;
  /** Name of the route in the discovery chain; `""`: the default route. */
  readonly route: string;
}

/** Buckets grow by the fourth root of two, as those of native histograms with schema 2. */
const PER_OCTAVE = 4;
/** The first bucket has all durations up to 2^-15 s, the last one those above 2^12 s. */
const LOWEST_OCTAVE = -15;
const HIGHEST_OCTAVE = 12;
const OFFSET = -LOWEST_OCTAVE * PER_OCTAVE;
const LAST = (HIGHEST_OCTAVE - LOWEST_OCTAVE) * PER_OCTAVE + 1;
const LOWEST_SECONDS = 2 ** LOWEST_OCTAVE;

/** Numbers of durations by bucket. */
export type TrafficCounts = Float64Array<ArrayBuffer>;

export function noTraffic(): TrafficCounts {
  return new Float64Array(LAST + 1);
}

export function addTraffic(a: TrafficCounts, b: TrafficCounts): TrafficCounts {
  return a.map((count, bucket) => count + (b[bucket] ?? 0));
}

/** Inclusive upper bound of a bucket in ms. */
function boundMs(bucket: number): number {
  return bucket >= LAST ? Infinity : 1_000 * 2 ** ((bucket - OFFSET) / PER_OCTAVE);
}

function bucketOf(ms: number): number {
  const seconds = ms / 1_000;
  // Written so that NaN counts as 0, too.
  if (!(seconds > LOWEST_SECONDS)) return 0;
  return Math.min(Math.ceil(Math.log2(seconds) * PER_OCTAVE) + OFFSET, LAST);
}

/** A bucket with fewer durations says nothing about their place in it. */
const FEW = 10;

export interface TrafficQuantile {
  /** 0: there is no duration. */
  readonly ms: number;
  /** The upper bound of a bucket with few durations: the quantile is at most that. */
  readonly isBound: boolean;
}

/** The duration that `quantile` of all do not exceed, evenly spread on a logarithmic scale where many are. */
export function trafficQuantile(counts: TrafficCounts, quantile: number): TrafficQuantile {
  const { low, high, share, count } = placeOf(counts, quantile);
  const isBound = count > 0 && count < FEW && high < Infinity;
  return { ms: isBound ? high : between(low, high, share), isBound };
}

/** The same without regard to the number of durations: it does not jump from one reading to the next. */
export function trafficQuantileMs(counts: TrafficCounts, quantile: number): number {
  const { low, high, share } = placeOf(counts, quantile);
  return between(low, high, share);
}

function between(low: number, high: number, share: number): number {
  return high === Infinity || low === 0 ? low : low * (high / low) ** share;
}

/** The bounds of the bucket of a quantile in ms, the part of it below the quantile, and its durations. */
function placeOf(counts: TrafficCounts, quantile: number): {
  readonly low: number;
  readonly high: number;
  readonly share: number;
  readonly count: number;
} {
  let total = 0;
  for (const count of counts) total += count;
  if (total === 0) return { low: 0, high: 0, share: 0, count: 0 };
  const rank = quantile * total;
  let before = 0;
  for (const [bucket, count] of counts.entries()) {
    if (count === 0 || before + count < rank) {
      before += count;
      continue;
    }
    const [low, high] = [boundMs(bucket - 1), boundMs(bucket)];
    return { low, high, share: (rank - before) / count, count };
  }
  return { low: boundMs(LAST - 1), high: Infinity, share: 0, count: 0 };
}

/** Octaves with a bound in classic histograms: 2^-10 s, which is about 1 ms, to 32 s. */
const CLASSIC_OCTAVES: readonly number[] = Array.from({ length: 16 }, (_, at) => at - 10);
/** Bounds of {@link classicTraffic}. */
export const TRAFFIC_BOUNDS_MS: readonly number[] = CLASSIC_OCTAVES.map((octave) =>
  1_000 * 2 ** octave
);

/** The counts in few buckets; one more has the durations above all bounds. */
export function classicTraffic(counts: TrafficCounts): readonly number[] {
  let from = 0;
  const sumTo = (end: number) => {
    let sum = 0;
    while (from < end) sum += counts[from++] ?? 0;
    return sum;
  };
  return [...CLASSIC_OCTAVES.map((octave) => octave * PER_OCTAVE + OFFSET + 1), LAST + 1].map(
    sumTo,
  );
}

function classicOf(bucket: number): number {
  const [lowest = 0] = CLASSIC_OCTAVES;
  const classic = Math.ceil((bucket - OFFSET) / PER_OCTAVE) - lowest;
  return Math.min(Math.max(classic, 0), CLASSIC_OCTAVES.length);
}

/** The bounds of the buckets in seconds are powers of 2^(1/4). */
export const NATIVE_TRAFFIC = {
  schema: 2,
  /** The first bucket has values up to it. */
  zeroThreshold: LOWEST_SECONDS,
  /** Index in a native histogram of the bucket after the first one. */
  firstIndex: 1 - OFFSET,
} as const;

/** Numbers of a row, or the sum of several. */
export interface TrafficNumbers {
  readonly requests: number;
  readonly errors: number;
  readonly counts: TrafficCounts;
}

/** How often requests of a row failed for the same reason. */
export interface TrafficFault {
  /** 0: there was no response. */
  readonly status: number;
  /** `""`: the other side answered so. */
  readonly code: string;
  readonly count: number;
}

/** Reasons of one row; the rest is counted as `other`. */
const FAULTS_LIMIT = 8;

export function addFaults(
  a: readonly TrafficFault[],
  b: readonly TrafficFault[],
): readonly TrafficFault[] {
  const sums = new Map<string, TrafficFault>();
  for (const fault of [...a, ...b]) {
    const key = `${fault.status} ${fault.code}`;
    sums.set(key, { ...fault, count: fault.count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}

/** A request with its trace. */
export interface TrafficExemplar {
  readonly traceId: string;
  readonly durationMs: number;
  /** Wall clock. */
  readonly at: number;
}

/** By bucket of {@link classicTraffic}. */
export type TrafficExemplars = readonly (TrafficExemplar | undefined)[];

/** The latest of each bucket. */
export function latestExemplars(a: TrafficExemplars, b: TrafficExemplars): TrafficExemplars {
  const longer = a.length < b.length ? b : a;
  return Array.from(longer, (_, bucket) => {
    const [one, other] = [a[bucket], b[bucket]];
    return one && other ? one.at < other.at ? other : one : one ?? other;
  });
}

/** An exemplar stays for this long; after a request without a trace, others are not looked at for a while. */
const EXEMPLAR_MS = 10_000;
const NO_TRACE_MS = 50;

export class TrafficRow implements TrafficNumbers {
  readonly key: TrafficKey;
  /** Requests and connections that ended. */
  requests = 0;
  errors = 0;
  /** From the caller, and to it. */
  receivedBytes = 0;
  sentBytes = 0;
  open = 0;
  sumMs = 0;
  readonly counts: TrafficCounts = noTraffic();
  /** Monotonic time of the last end. */
  usedMs: number;
  /** The table has given its place to another row. */
  isGone = false;
  /** The numbers at the end of the period before the last one, and of the last one. */
  #before: TrafficNumbers | undefined;
  #last: TrafficNumbers | undefined;

  constructor(key: TrafficKey, nowMs: number) {
    this.key = key;
    this.usedMs = nowMs;
  }

  readonly exemplars: (TrafficExemplar | undefined)[] = [];
  /** By bucket, when the next request with a trace becomes the exemplar. */
  readonly #exemplarsDueMs = new Float64Array(CLASSIC_OCTAVES.length + 1);

  /**
   * A request or connection that was counted as open has ended. The bucket that needs an exemplar, for
   * {@link TrafficRow.takeExemplar}; negative: none does.
   */
  ended(durationMs: number, isError: boolean, nowMs: number): number {
    const bucket = bucketOf(durationMs);
    this.open--;
    this.requests++;
    if (isError) this.errors++;
    if (durationMs > 0) this.sumMs += durationMs;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.usedMs = nowMs;
    const classic = classicOf(bucket);
    return nowMs < (this.#exemplarsDueMs[classic] ?? 0) ? -1 : classic;
  }

  /** `undefined`: the request has no trace. */
  takeExemplar(bucket: number, exemplar: TrafficExemplar | undefined, nowMs: number): void {
    if (exemplar) this.exemplars[bucket] = exemplar;
    this.#exemplarsDueMs[bucket] = nowMs + (exemplar ? EXEMPLAR_MS : NO_TRACE_MS);
  }

  readonly faults: { readonly status: number; readonly code: string; count: number }[] = [];

  /** Why a request or connection that ended as an error failed. */
  failed(status: number, code: string): void {
    for (const fault of this.faults) {
      if (fault.status === status && fault.code === code) {
        fault.count++;
        return;
      }
    }
    const { length } = this.faults;
    if (length < FAULTS_LIMIT - 1 || length < FAULTS_LIMIT && code === "other") {
      this.faults.push({ status, code, count: 1 });
    } else this.failed(0, "other");
  }

  /** A period ends. */
  endPeriod(): void {
    this.#before = this.#last;
    const { requests, errors } = this;
    if (this.#last?.requests === requests) return;
    this.#last = { requests, errors, counts: this.counts.slice() };
  }

  /** The numbers since the end of the period before the last one; `undefined`: there were no requests. */
  get recent(): TrafficNumbers | undefined {
    const before = this.#before;
    const requests = this.requests - (before?.requests ?? 0);
    if (requests === 0) return undefined;
    return {
      requests,
      errors: this.errors - (before?.errors ?? 0),
      counts: this.counts.map((count, bucket) => count - (before?.counts[bucket] ?? 0)),
    };
  }
}
