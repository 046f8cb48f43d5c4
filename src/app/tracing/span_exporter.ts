/**
 * Sends spans to the collector that the snapshot in force names. A collector that is away or refuses loses
 * spans, counted; nothing waits for it.
 *
 * @module
 */

import { hostname } from "node:os";
import process from "node:process";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type Counter, type Log, messageOf, sleep, type Stats } from "../../base/mod.ts";
import { sameContent, type Snapshot, type TracingPart } from "../../snapshot/mod.ts";
import {
  type CollectorDeps,
  type CollectorLink,
  type CollectorOutcome,
  openCollector,
} from "./collector.ts";
import { otlpJsonRequest, otlpRequest, type SpanOrigin } from "./otlp.ts";
import type { SpanBatch } from "./span_outbox.ts";

export interface SpanExporterOptions extends CollectorDeps {
  readonly log: Log;
  readonly stats: Stats;
  readonly version: string;
}

/** Spans that wait for the collector; more lose the oldest. */
const QUEUE_SPANS = 8_192;
const BATCH_SPANS = 512;
/** Spans are collected for this long before they are sent. */
const DELAY_MS = 1_000;
const RETRY_MS = { first: 1_000, most: 30_000 } as const;
/** A batch is given up after this many tries. */
const TRIES = 5;
/** The last spans of a process may take this long. */
const LAST_MS = 1_500;
const ENCODER = new TextEncoder();
/** Takes a quarter of the time that the default level takes. */
const FAST = { level: 1 } as const;
const compress = promisify(gzip);

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  #part: TracingPart | null = null;
  #origin: SpanOrigin | undefined;
  #link: CollectorLink | undefined;
  #queue: SpanBatch[] = [];
  /** Spans in the queue. */
  #queued = 0;
  #running: Promise<void> | undefined;
  /** Ends the wait that collects spans; the pause after a failure goes on. */
  #collecting: AbortController | undefined;
  #pausing: AbortController | undefined;
  #isClosing = false;
  #failure = "";
  #counters: { readonly sent: Counter; lost(reason: LossReason): Counter } | undefined;

  constructor(options: SpanExporterOptions) {
    this.#options = options;
  }

  /** Sends to the collector of this snapshot from now on. */
  set(snapshot: Pick<Snapshot, "tracing" | "proxyId" | "datacenter">): void {
    const { tracing, proxyId, datacenter } = snapshot;
    const before = this.#part;
    if (before?.version === tracing?.version) return;
    const { stats, version } = this.#options;
    this.#part = tracing;
    if (tracing === null) return this.#drop();
    this.#counters ??= createCounters(stats);
    this.#origin = {
      version,
      attributes: {
        "service.name": tracing.service,
        "service.instance.id": proxyId,
        "host.name": hostname(),
        "process.pid": process.pid,
        "consul.datacenter": datacenter,
        ...tracing.resource,
      },
    };
    if (this.#link && sameContent(before?.collector, tracing.collector)) return;
    this.#link?.close();
    this.#link = undefined;
    try {
      this.#link = openCollector(tracing.collector, this.#options);
    } catch (error) {
      this.#report(messageOf(error));
    }
  }

  /** Spans of a worker; `lost`: spans that it dropped. */
  take(batch: SpanBatch, lost: number): void {
    if (!this.#part) return;
    if (lost > 0) this.#counters?.lost("worker_full").add(lost);
    this.#queue.push(batch);
    this.#queued += batch.count;
    while (this.#queued > QUEUE_SPANS) this.#counters?.lost("queue_full").add(this.#shift().count);
    if (this.#queued >= BATCH_SPANS) this.#collecting?.abort();
    this.#start();
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

  #shift(): SpanBatch {
    const batch = this.#queue.shift();
    if (!batch) throw new TypeError("the queue is empty");
    this.#queued -= batch.count;
    return batch;
  }

  async #run(): Promise<void> {
    while (this.#queued > 0) {
      if (this.#queued < BATCH_SPANS && !this.#isClosing) {
        const { signal } = this.#collecting = new AbortController();
        await sleep(this.#options.clock, DELAY_MS, { signal });
      }
      const batches: SpanBatch[] = [];
      for (let count = 0; this.#queued > 0 && count < BATCH_SPANS;) {
        const batch = this.#shift();
        batches.push(batch);
        count += batch.count;
      }
      await this.#deliver(batches);
    }
  }

  async #deliver(all: readonly SpanBatch[]): Promise<void> {
    const format = this.#part?.collector.format;
    // Spans for another kind of collector came before the configuration changed.
    const batches = all.filter((batch) => batch.format === format);
    const foreign = countOf(all) - countOf(batches);
    if (foreign > 0) this.#counters?.lost("closed").add(foreign);
    const count = countOf(batches);
    for (let tried = 1; count > 0; tried++) {
      const outcome = await this.#send(batches);
      if (outcome.kind === "taken") {
        if (this.#failure !== "") this.#options.log.info("spans are taken by the collector again");
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

  async #send(batches: readonly SpanBatch[]): Promise<CollectorOutcome> {
    const link = this.#link;
    const part = this.#part;
    const origin = this.#origin;
    if (!link || !part || !origin) return { kind: "refused", reason: "there is no collector" };
    const { format } = part.collector;
    const body = bodyOf(batches, { format, origin });
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
    this.#options.log.warn("spans are not taken by the collector", { reason });
  }
}

type LossReason = "worker_full" | "queue_full" | "refused" | "unreachable" | "closed";

const CONTENT_TYPES = {
  otlp_json: "application/json",
  otlp_protobuf: "application/x-protobuf",
  otlp_grpc: "",
  zipkin_json: "application/json",
} as const;

function countOf(batches: readonly SpanBatch[]): number {
  return batches.reduce((sum, { count }) => sum + count, 0);
}

function bodyOf(
  batches: readonly SpanBatch[],
  { format, origin }: Pick<SpanBatch, "format"> & { readonly origin: SpanOrigin },
): Uint8Array {
  const bodies = batches.map(({ body }) => body);
  const texts = bodies.filter((body) => typeof body === "string").join();
  switch (format) {
    case "otlp_json":
      return ENCODER.encode(otlpJsonRequest(texts, origin));
    case "otlp_protobuf":
    case "otlp_grpc":
      return otlpRequest(bodies.filter((body) => typeof body !== "string"), origin);
    case "zipkin_json":
      return ENCODER.encode(`[${texts}]`);
  }
}

function createCounters(stats: Stats) {
  const sent = stats.counter("spans_exported_total", "Spans that the collector took");
  const help = "Spans that were lost: the collector was away or refused them, or a queue was full";
  return {
    sent,
    lost: (reason: LossReason) => stats.counter("spans_dropped_total", help, { reason }),
  };
}
