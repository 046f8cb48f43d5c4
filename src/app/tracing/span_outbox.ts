/** Hands finished spans from a data worker to the main thread, in batches. Traffic never waits. @module */

import type { Clock, Timer } from "../../base/mod.ts";
import type { FinishedSpan } from "../../proxy/mod.ts";

/** Takes a batch; `lost`: spans that were dropped since the last one. */
export type SendSpans = (spans: readonly FinishedSpan[], lost: number) => Promise<void>;

const BATCH_MS = 200;
const BATCH_SPANS = 256;
/** Spans that wait or that the main thread has not taken; more are lost. */
const LIMIT_SPANS = 2_048;

export class SpanOutbox {
  readonly #clock: Pick<Clock, "after">;
  readonly #send: SendSpans;
  #waiting: FinishedSpan[] = [];
  /** Spans of batches that have no answer yet. */
  #sent = 0;
  #lost = 0;
  #timer: Timer | undefined;

  constructor(clock: Pick<Clock, "after">, send: SendSpans) {
    this.#clock = clock;
    this.#send = send;
  }

  readonly take = (span: FinishedSpan): void => {
    if (this.#waiting.length + this.#sent >= LIMIT_SPANS) {
      this.#lost++;
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length >= BATCH_SPANS) return this.flush();
    this.#timer ??= this.#clock.after(BATCH_MS, () => this.flush());
  };

  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const spans = this.#waiting;
    if (spans.length === 0) return;
    this.#waiting = [];
    this.#sent += spans.length;
    const lost = this.#lost;
    this.#lost = 0;
    const taken = () => this.#sent -= spans.length;
    // A main thread that is gone ends this thread, too.
    this.#send(spans, lost).then(taken, taken);
  }
}
