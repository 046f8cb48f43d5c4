/**
 * Hands finished spans from a data worker to the main thread, in batches, encoded as the collector takes
 * them. Traffic never waits.
 *
 * @module
 */

import type { Clock, Timer } from "../../base/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";
import type { TraceCollector } from "../../snapshot/mod.ts";
import { ProtobufWriter } from "../../wire/mod.ts";
import { otlpJsonSpan, writeOtlpSpan } from "./otlp.ts";
import { zipkinSpan } from "./zipkin_json.ts";

/** Encoded spans of one format. */
export interface SpanBatch {
  readonly format: TraceCollector["format"];
  readonly count: number;
  /** Texts in JSON have commas between them. */
  readonly body: Uint8Array | string;
}

/** Takes a batch; `lost`: spans that were dropped since the last one. */
export type SendSpans = (batch: SpanBatch, lost: number) => Promise<void>;

const BATCH_MS = 200;
const BATCH_SPANS = 256;
/** Spans that wait or that the main thread has not taken; more are lost. */
const LIMIT_SPANS = 2_048;

export class SpanOutbox {
  readonly #clock: Pick<Clock, "after">;
  readonly #send: SendSpans;
  #format: TraceCollector["format"] = "otlp_protobuf";
  #count = 0;
  #bytes = new ProtobufWriter();
  #texts: string[] = [];
  /** Spans of batches that have no answer yet. */
  #sent = 0;
  #lost = 0;
  #timer: Timer | undefined;

  constructor(clock: Pick<Clock, "after">, send: SendSpans) {
    this.#clock = clock;
    this.#send = send;
  }

  readonly take = (span: FinishedSpan, { format, service }: {
    readonly format: TraceCollector["format"];
    readonly service: string;
  }): void => {
    if (this.#count + this.#sent >= LIMIT_SPANS) {
      this.#lost++;
      return;
    }
    if (format !== this.#format) this.flush();
    this.#format = format;
    this.#count++;
    switch (format) {
      case "otlp_protobuf":
      case "otlp_grpc":
        writeOtlpSpan(this.#bytes, span);
        break;
      case "otlp_json":
        this.#texts.push(otlpJsonSpan(span));
        break;
      case "zipkin_json":
        this.#texts.push(zipkinSpan(span, service));
    }
    if (this.#count >= BATCH_SPANS) return this.flush();
    this.#timer ??= this.#clock.after(BATCH_MS, () => this.flush());
  };

  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const count = this.#count;
    if (count === 0) return;
    const isText = this.#texts.length > 0;
    const body = isText ? this.#texts.join() : this.#bytes.bytes.slice(0, this.#bytes.length);
    const lost = this.#lost;
    this.#count = this.#bytes.length = this.#lost = 0;
    this.#texts = [];
    this.#sent += count;
    const taken = () => this.#sent -= count;
    // A main thread that is gone ends this thread, too.
    this.#send({ format: this.#format, count, body }, lost).then(taken, taken);
  }
}
