/**
 * Hands finished spans and log records from the thread that made them to the main thread, in batches,
 * encoded as the collector takes them. Traffic never waits.
 *
 * @module
 */

import type { Clock, Timer } from "../../base/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import type { CollectorFormat } from "../../snapshot/mod.ts";
import { ProtobufWriter } from "../../wire/mod.ts";
import type { Signal } from "./otlp.ts";
import { otlpJsonSpan, writeOtlpSpan } from "./otlp_spans.ts";
import { zipkinSpan } from "./zipkin_json.ts";

/** Encoded items of one signal and format. */
export interface TelemetryBatch {
  readonly signal: Signal;
  readonly format: CollectorFormat;
  readonly count: number;
  /** Texts in JSON have commas between them. */
  readonly body: Uint8Array | string;
}

/** Takes a batch; `lost`: items that were dropped since the last one. */
export type SendTelemetry = (batch: TelemetryBatch, lost: number) => Promise<void>;

/** How items of one kind are encoded. */
interface ItemCodec<Item> {
  write(writer: ProtobufWriter, item: Item): void;
  json(item: Item): string;
  zipkin(item: Item, service: string): string;
}

const BATCH_MS = 200;
const BATCH_ITEMS = 256;
/** Items that wait or that the main thread has not taken; more are lost. */
const LIMIT_ITEMS = 2_048;

export class Outbox<Item> {
  readonly #signal: Signal;
  readonly #codec: ItemCodec<Item>;
  readonly #clock: Pick<Clock, "after">;
  readonly #send: SendTelemetry;
  #format: CollectorFormat = "otlp_protobuf";
  #count = 0;
  #bytes = new ProtobufWriter();
  #texts: string[] = [];
  /** Items of batches that have no answer yet. */
  #sent = 0;
  #lost = 0;
  #timer: Timer | undefined;

  constructor(
    of: { readonly signal: Signal; readonly codec: ItemCodec<Item> },
    clock: Pick<Clock, "after">,
    send: SendTelemetry,
  ) {
    this.#signal = of.signal;
    this.#codec = of.codec;
    this.#clock = clock;
    this.#send = send;
  }

  readonly take = (item: Item, { format, service }: {
    readonly format: CollectorFormat;
    readonly service: string;
  }): void => {
    if (this.#count + this.#sent >= LIMIT_ITEMS) {
      this.#lost++;
      // A batch tells the number, also where every item is lost.
      this.#timer ??= this.#clock.after(BATCH_MS, () => this.flush());
      return;
    }
    if (format !== this.#format) this.flush();
    this.#format = format;
    this.#count++;
    switch (format) {
      case "otlp_protobuf":
      case "otlp_grpc":
        this.#codec.write(this.#bytes, item);
        break;
      case "otlp_json":
        this.#texts.push(this.#codec.json(item));
        break;
      case "zipkin_json":
        this.#texts.push(this.#codec.zipkin(item, service));
    }
    if (this.#count >= BATCH_ITEMS) return this.flush();
    this.#timer ??= this.#clock.after(BATCH_MS, () => this.flush());
  };

  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const count = this.#count;
    if (count === 0 && this.#lost === 0) return;
    const isText = this.#texts.length > 0;
    const body = isText ? this.#texts.join() : this.#bytes.bytes.slice(0, this.#bytes.length);
    const lost = this.#lost;
    this.#count = this.#bytes.length = this.#lost = 0;
    this.#texts = [];
    this.#sent += count;
    const taken = () => this.#sent -= count;
    // A main thread that is gone ends this thread, too.
    this.#send({ signal: this.#signal, format: this.#format, count, body }, lost)
      .then(taken, taken);
  }
}

export type SpanOutbox = Outbox<FinishedSpan>;

export function spanOutbox(clock: Pick<Clock, "after">, send: SendTelemetry): SpanOutbox {
  const codec = { write: writeOtlpSpan, json: otlpJsonSpan, zipkin: zipkinSpan };
  return new Outbox({ signal: "spans", codec }, clock, send);
}
