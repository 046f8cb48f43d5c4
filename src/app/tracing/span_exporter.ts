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
import {
  type Clock,
  type Counter,
  type Log,
  messageOf,
  sleep,
  type Stats,
} from "../../base/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import { sameContent, type Snapshot, type TracingPart } from "../../snapshot/mod.ts";
import { CollectorClient, type CollectorReply } from "./collector.ts";
import { otlpTraces, type SpanOrigin } from "./otlp_json.ts";
import { zipkinSpans } from "./zipkin_json.ts";

export interface SpanExporterOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly engine: DialEngine;
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
/** Statuses of a collector that may take the same request later (OTLP/HTTP). */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);

const compress = promisify(gzip);

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  #part: TracingPart | null = null;
  #origin: SpanOrigin | undefined;
  #client: CollectorClient | undefined;
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
    const { clock, engine, stats, version } = this.#options;
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
    if (this.#client && sameContent(before?.collector, tracing.collector)) return;
    this.#client?.close();
    this.#client = new CollectorClient(new URL(tracing.collector.url), {
      engine,
      clock,
      tls: null,
    });
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
    this.#client?.close();
    this.#client = undefined;
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

  async #send(batch: readonly FinishedSpan[]): Promise<Outcome> {
    const client = this.#client;
    const collector = this.#part?.collector;
    const origin = this.#origin;
    if (!client || !collector || !origin) {
      return { kind: "refused", reason: "no collector is configured any more" };
    }
    const isOtlp = collector.format === "otlp_json";
    const service = this.#part?.service ?? "";
    const text = JSON.stringify(
      isOtlp ? otlpTraces(batch, origin) : zipkinSpans(batch, service),
    );
    try {
      // Not every server of Zipkin's API decompresses.
      const body = isOtlp ? new Uint8Array(await compress(text)) : new TextEncoder().encode(text);
      const headers = {
        ...collector.headers,
        "content-type": "application/json",
        ...(isOtlp && { "content-encoding": "gzip" }),
        "user-agent": `postern/${origin.version}`,
      };
      return outcomeOf(await client.post({ headers, body }), this.#options.clock.now());
    } catch (error) {
      return { kind: "unreachable", reason: messageOf(error) };
    }
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

type Outcome =
  | { readonly kind: "taken" }
  | { readonly kind: "refused"; readonly reason: string }
  /** It may be taken later; `afterMs`: when the collector says when. */
  | { readonly kind: "unreachable"; readonly reason: string; readonly afterMs?: number };

function outcomeOf({ status, retryAfter }: CollectorReply, nowMs: number): Outcome {
  if (status >= 200 && status < 300) return { kind: "taken" };
  const reason = `the collector answered ${status}`;
  if (!PASSING.has(status)) return { kind: "refused", reason };
  const afterMs = retryAfterMs(retryAfter, nowMs);
  return { kind: "unreachable", reason, ...(afterMs !== undefined && { afterMs }) };
}

/** Seconds, or a date (RFC 9110 10.2.3). */
function retryAfterMs(text: string, nowMs: number): number | undefined {
  if (text === "") return undefined;
  const ms = /^\d{1,6}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), RETRY_MS.most);
}

function createCounters(stats: Stats) {
  const sent = stats.counter("spans_exported_total", "Spans that the collector took");
  const help = "Spans that were lost: the collector was away or refused them, or a queue was full";
  return {
    sent,
    lost: (reason: LossReason) => stats.counter("spans_dropped_total", help, { reason }),
  };
}
