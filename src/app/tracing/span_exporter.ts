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
import type { FinishedSpan } from "../../proxy/mod.ts";
import { sameContent, type Snapshot, type TracingPart } from "../../snapshot/mod.ts";
import {
  type CollectorDeps,
  type CollectorLink,
  type CollectorOutcome,
  openCollector,
} from "./collector.ts";
import { otlpJson, otlpProtobuf, type SpanOrigin } from "./otlp.ts";
import { zipkinSpans } from "./zipkin_json.ts";

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
const compress = promisify(gzip);

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  #part: TracingPart | null = null;
  #origin: SpanOrigin | undefined;
  #link: CollectorLink | undefined;
  #queue: FinishedSpan[] = [];
  #running: Promise<void> | undefined;
  #wake: AbortController | undefined;
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
  take(spans: readonly FinishedSpan[], lost: number): void {
    if (!this.#part) return;
    if (lost > 0) this.#counters?.lost("worker_full").add(lost);
    this.#queue.push(...spans);
    const excess = this.#queue.length - QUEUE_SPANS;
    if (excess > 0) {
      this.#queue.splice(0, excess);
      this.#counters?.lost("queue_full").add(excess);
    }
    if (this.#queue.length >= BATCH_SPANS) this.#wake?.abort();
    this.#running ??= this.#run().finally(() => this.#running = undefined);
  }

  /** Sends what is left, within a time limit. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#wake?.abort();
    await Promise.race([this.#running, sleep(this.#options.clock, LAST_MS)]);
    this.#drop();
  }

  #drop(): void {
    if (this.#queue.length > 0) this.#counters?.lost("closed").add(this.#queue.length);
    this.#queue = [];
    this.#link?.close();
    this.#link = undefined;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      if (this.#queue.length < BATCH_SPANS) await this.#wait(DELAY_MS);
      const batch = this.#queue.splice(0, BATCH_SPANS);
      if (batch.length > 0) await this.#deliver(batch);
    }
  }

  async #deliver(batch: readonly FinishedSpan[]): Promise<void> {
    for (let tried = 1;; tried++) {
      const outcome = await this.#send(batch);
      if (outcome.kind === "taken") {
        if (this.#failure !== "") this.#options.log.info("spans are taken by the collector again");
        this.#failure = "";
        return this.#counters?.sent.add(batch.length);
      }
      this.#report(outcome.reason);
      const isLast = outcome.kind === "refused" || tried >= TRIES || this.#isClosing;
      if (isLast) return this.#counters?.lost(outcome.kind).add(batch.length);
      const backoffMs = Math.min(RETRY_MS.first * 2 ** (tried - 1), RETRY_MS.most);
      await this.#wait(outcome.afterMs ?? backoffMs);
    }
  }

  async #send(batch: readonly FinishedSpan[]): Promise<CollectorOutcome> {
    const link = this.#link;
    const part = this.#part;
    const origin = this.#origin;
    if (!link || !part || !origin) return { kind: "refused", reason: "there is no collector" };
    const body = bodyOf(batch, { part, origin });
    const headers = {
      "content-type": CONTENT_TYPES[part.collector.format],
      "user-agent": `postern/${origin.version}`,
    };
    // Not every server of Zipkin's API decompresses, and gRPC has a way of its own.
    if (!part.collector.format.match(/^otlp_(?:json|protobuf)$/)) return link.post(headers, body);
    const zipped = new Uint8Array(await compress(body));
    return await link.post({ ...headers, "content-encoding": "gzip" }, zipped);
  }

  #report(reason: string): void {
    if (this.#failure === reason) return;
    this.#failure = reason;
    this.#options.log.warn("spans are not taken by the collector", { reason });
  }

  async #wait(ms: number): Promise<void> {
    if (this.#isClosing) return;
    const wake = this.#wake = new AbortController();
    await sleep(this.#options.clock, ms, { signal: wake.signal });
  }
}

type LossReason = "worker_full" | "queue_full" | "refused" | "unreachable" | "closed";

const CONTENT_TYPES = {
  otlp_json: "application/json",
  otlp_protobuf: "application/x-protobuf",
  otlp_grpc: "",
  zipkin_json: "application/json",
} as const;

function bodyOf(
  batch: readonly FinishedSpan[],
  { part, origin }: { readonly part: TracingPart; readonly origin: SpanOrigin },
): Uint8Array {
  const { service, collector: { format } } = part;
  switch (format) {
    case "otlp_json":
      return ENCODER.encode(otlpJson(batch, origin));
    case "otlp_protobuf":
    case "otlp_grpc":
      return otlpProtobuf(batch, origin);
    case "zipkin_json":
      return ENCODER.encode(JSON.stringify(zipkinSpans(batch, service)));
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
