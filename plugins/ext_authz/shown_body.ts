/**
 * The beginning of a body, to be shown, and the request that goes on with all of it.
 *
 * @module
 */

import type { Body, Bytes, Clock, HttpRequest } from "../../src/plugin/api.ts";
import type { ShownBody } from "./verdict.ts";

export type Taken =
  | { readonly kind: "taken"; readonly body: ShownBody; readonly request: HttpRequest }
  | { readonly kind: "too_long" | "too_slow" };

export async function takeBody(request: HttpRequest, body: Body, options: {
  readonly limitBytes: number;
  readonly allowPartial: boolean;
  readonly timeoutMs: number;
  readonly clock: Clock;
}): Promise<Taken> {
  const { limitBytes, allowPartial, timeoutMs, clock } = options;
  if (!allowPartial && (body.length ?? 0) > limitBytes) return { kind: "too_long" };
  const reader = body.stream().getReader();
  const over = new AbortController();
  let isLate = false;
  void clock.sleep(timeoutMs, over.signal).then(() => {
    isLate = !over.signal.aborted;
    // Whoever waits for more is told that there is none.
    if (isLate) void reader.cancel().catch(() => {});
  });
  const kept = new Kept();
  // What is as long as may be shown need not be waited for to its end, where the beginning will do.
  const enough = allowPartial ? limitBytes : limitBytes + 1;
  let isComplete = false;
  try {
    while (kept.length < enough && !isComplete) {
      const { done, value } = await reader.read();
      isComplete = done;
      if (value) kept.add(value);
    }
  } finally {
    over.abort();
  }
  if (isLate) return { kind: "too_slow" };
  const { all } = kept;
  if (all.length > limitBytes && !allowPartial) {
    await reader.cancel();
    return { kind: "too_long" };
  }
  const isPartial = all.length > limitBytes || !isComplete && body.length !== all.length;
  const shown = { bytes: all.subarray(0, limitBytes), isPartial };
  const whole = isComplete ? all : restOf(all, reader);
  return { kind: "taken", body: shown, request: request.with({ body: whole }) };
}

function restOf(
  first: Bytes,
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (controller) => controller.enqueue(first),
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** One piece of memory, however many chunks there are. */
class Kept {
  length = 0;
  #bytes = new Uint8Array(1_024);

  add(chunk: Uint8Array): void {
    const length = this.length + chunk.length;
    if (length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(length, this.#bytes.length * 2));
      larger.set(this.all);
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.length);
    this.length = length;
  }

  get all(): Bytes {
    return this.#bytes.subarray(0, this.length);
  }
}
