/**
 * Sends items of one signal (spans, metrics, logs) to a collector. A collector that is away or refuses loses
 * items, counted; nothing waits for it.
 *
 * @module
 */

import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type Counter, type Log, messageOf, sleep, type Stats } from "../../base/mod.ts";
import { sameContent, type TelemetryCollector } from "../../snapshot/mod.ts";
import {
  type CollectorDeps,
  type CollectorLink,
  type CollectorOutcome,
  openCollector,
} from "./collector.ts";
import { otlpJsonRequest, otlpRequest, type Signal, type TelemetryOrigin } from "./otlp.ts";
import type { TelemetryBatch } from "./outbox.ts";

export interface ExporterOptions extends CollectorDeps {
  readonly log: Log;
  readonly stats: Stats;
}

/** Items that wait for the collector; more lose the oldest. */
const QUEUE_ITEMS = 8_192;
const BATCH_ITEMS = 512;
/** Items are collected for this long before they are sent. */
const DELAY_MS = 1_000;
const RETRY_MS = { first: 1_000, most: 30_000 } as const;
/** A batch is given up after this many tries. */
const TRIES = 5;
/** The last items of a process may take this long. */
const LAST_MS = 1_500;
const ENCODER = new TextEncoder();
/** Takes a quarter of the time that the default level takes. */
const FAST = { level: 1 } as const;
const compress = promisify(gzip);

/** The collector of a signal, and what it is told about this process. */
export interface ExportTarget {
  readonly collector: TelemetryCollector;
  readonly origin: TelemetryOrigin;
}

export class Exporter {
  readonly #signal: Signal;
  readonly #options: ExporterOptions;
  #target: ExportTarget | undefined;
  #link: CollectorLink | undefined;
  #queue: TelemetryBatch[] = [];
  /** Items in the queue. */
  #queued = 0;
  #running: Promise<void> | undefined;
  /** Ends the wait that collects items; the pause after a failure goes on. */
  #collecting: AbortController | undefined;
  #pausing: AbortController | undefined;
  #isClosing = false;
  #failure = "";
  #counters: { readonly sent: Counter; lost(reason: LossReason): Counter } | undefined;

  constructor(signal: Signal, options: ExporterOptions) {
    this.#signal = signal;
    this.#options = options;
  }

  /** Sends to this collector from now on; `undefined`: there is none. */
  set(target: ExportTarget | undefined): void {
    const before = this.#target;
    this.#target = target;
    if (!target) return this.#drop();
    this.#counters ??= createCounters(this.#signal, this.#options.stats);
    if (this.#link && sameContent(before?.collector, target.collector)) return;
    this.#link?.close();
    this.#link = undefined;
    try {
      this.#link = openCollector(target.collector, this.#signal, this.#options);
    } catch (error) {
      this.#report(messageOf(error));
    }
  }

  /** Items of a thread; `lost`: items that it dropped. */
  take(batch: TelemetryBatch, lost: number): void {
    if (!this.#target) return;
    if (lost > 0) this.#counters?.lost("worker_full").add(lost);
    if (batch.count > 0) this.#push([batch]);
    while (this.#queued > QUEUE_ITEMS) this.#counters?.lost("queue_full").add(this.#shift().count);
    if (this.#queued >= BATCH_ITEMS) this.#collecting?.abort();
    this.#start();
  }

  /** Sends these now; earlier ones that still wait are lost, for these say the same and more. */
  replace(batches: readonly TelemetryBatch[]): void {
    if (!this.#target) return;
    while (this.#queue.length > 0) this.#counters?.lost("queue_full").add(this.#shift().count);
    this.#push(batches);
    this.#start();
    this.#collecting?.abort();
  }

  #push(batches: readonly TelemetryBatch[]): void {
    this.#queue.push(...batches);
    for (const { count } of batches) this.#queued += count;
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#queued > 0) this.#start();
    });
  }

  /** Sends what is left, within a time limit. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#collecting?.abort();
    this.#pausing?.abort();
    let isLate = false;
    const late = sleep(this.#options.clock, LAST_MS).then(() => isLate = true);
    while (this.#running && !isLate) await Promise.race([this.#running, late]);
    this.#drop();
  }

  #drop(): void {
    if (this.#queued > 0) this.#counters?.lost("closed").add(this.#queued);
    this.#queue = [];
    this.#queued = 0;
    this.#link?.close();
    this.#link = undefined;
  }

  #shift(): TelemetryBatch {
    const batch = this.#queue.shift();
    if (!batch) throw new TypeError("the queue is empty");
    this.#queued -= batch.count;
    return batch;
  }

  async #run(): Promise<void> {
    while (this.#queued > 0) {
      if (this.#queued < BATCH_ITEMS && !this.#isClosing) {
        const { signal } = this.#collecting = new AbortController();
        await sleep(this.#options.clock, DELAY_MS, { signal });
      }
      const batches: TelemetryBatch[] = [];
      for (let count = 0; this.#queued > 0 && count < BATCH_ITEMS;) {
        const batch = this.#shift();
        batches.push(batch);
        count += batch.count;
      }
      await this.#deliver(batches);
    }
  }

  async #deliver(all: readonly TelemetryBatch[]): Promise<void> {
    const format = this.#target?.collector.format;
    // Items for another kind of collector came before the configuration changed.
    const batches = all.filter((batch) => batch.format === format);
    const foreign = countOf(all) - countOf(batches);
    if (foreign > 0) this.#counters?.lost("closed").add(foreign);
    const count = countOf(batches);
    for (let tried = 1; count > 0; tried++) {
      const outcome = await this.#send(batches);
      if (outcome.kind === "taken") {
        if (this.#failure !== "") {
          this.#options.log.info(`${this.#signal} are taken by the collector again`);
        }
        this.#failure = "";
        return this.#counters?.sent.add(count);
      }
      this.#report(outcome.reason);
      const isLast = outcome.kind === "refused" || tried >= TRIES || this.#isClosing;
      if (isLast) return this.#counters?.lost(outcome.kind).add(count);
      const backoffMs = Math.min(RETRY_MS.first * 2 ** (tried - 1), RETRY_MS.most);
      const { signal } = this.#pausing = new AbortController();
      await sleep(this.#options.clock, outcome.afterMs ?? backoffMs, { signal });
    }
  }

  async #send(batches: readonly TelemetryBatch[]): Promise<CollectorOutcome> {
    const link = this.#link;
    const target = this.#target;
    if (!link || !target) return { kind: "refused", reason: "there is no collector" };
    const { origin, collector: { format } } = target;
    const body = bodyOf(batches, { format, origin, signal: this.#signal });
    const headers = {
      "content-type": CONTENT_TYPES[format],
      "user-agent": `postern/${origin.version}`,
    };
    // Not every server of Zipkin's API decompresses, and gRPC has a way of its own.
    if (format === "zipkin_json" || format === "otlp_grpc") return link.post(headers, body);
    const zipped = new Uint8Array(await compress(body, FAST));
    return await link.post({ ...headers, "content-encoding": "gzip" }, zipped);
  }

  #report(reason: string): void {
    if (this.#failure === reason) return;
    this.#failure = reason;
    const to = this.#target?.collector.url;
    this.#options.log.warn(`${this.#signal} are not taken by the collector`, { to, reason });
  }
}

type LossReason = "worker_full" | "queue_full" | "refused" | "unreachable" | "closed";

const CONTENT_TYPES = {
  otlp_json: "application/json",
  otlp_protobuf: "application/x-protobuf",
  otlp_grpc: "",
  zipkin_json: "application/json",
} as const;

function countOf(batches: readonly TelemetryBatch[]): number {
  return batches.reduce((sum, { count }) => sum + count, 0);
}

function bodyOf(
  batches: readonly TelemetryBatch[],
  { format, origin, signal }: Pick<TelemetryBatch, "format" | "signal"> & {
    readonly origin: TelemetryOrigin;
  },
): Uint8Array {
  const bodies = batches.map(({ body }) => body);
  const texts = bodies.filter((body) => typeof body === "string").join();
  switch (format) {
    case "otlp_json":
      return ENCODER.encode(otlpJsonRequest(signal, texts, origin));
    case "otlp_protobuf":
    case "otlp_grpc":
      return otlpRequest(bodies.filter((body) => typeof body !== "string"), origin);
    case "zipkin_json":
      return ENCODER.encode(`[${texts}]`);
  }
}

interface SignalCounters {
  readonly exported: string;
  readonly dropped: string;
  /** Plural name of the counted items, for HELP texts. */
  readonly items: string;
}

const COUNTED: Readonly<Record<Signal, SignalCounters>> = {
  spans: { exported: "spans_exported_total", dropped: "spans_dropped_total", items: "Spans" },
  metrics: {
    exported: "metric_points_exported_total",
    dropped: "metric_points_dropped_total",
    items: "Points of metrics",
  },
  logs: {
    exported: "log_records_exported_total",
    dropped: "log_records_dropped_total",
    items: "Log records",
  },
};

function createCounters(signal: Signal, stats: Stats) {
  const { exported, dropped, items } = COUNTED[signal];
  const help =
    `${items} that were lost: the collector was away or refused them, or a queue was full`;
  return {
    sent: stats.counter(exported, `${items} that the collector took`),
    lost: (reason: LossReason) => stats.counter(dropped, help, { reason }),
  };
}
