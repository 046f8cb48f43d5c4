/**
 * The beginning of a body, for the authorization service, and the request that continues with the whole body.
 *
 * @module
 */

import type { Body, Bytes, Clock, HttpRequest } from "../../src/plugin/api.ts";
import type { ShownBody } from "./verdict.ts";

export type Taken =
  | { readonly kind: "taken"; readonly body: ShownBody; continued(): HttpRequest }
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
    // Ends the pending read.
    if (isLate) void reader.cancel().catch(() => {});
  });
  const kept = new KeptBody(Math.min(limitBytes, body.length ?? limitBytes));
  /** The bytes beyond the shown part. */
  let more: Uint8Array = NOTHING;
  let isComplete = false;
  try {
    // With `allowPartial`, reading stops at the limit instead of at the end of the body.
    while (!isComplete && more.length === 0 && (!allowPartial || kept.length < limitBytes)) {
      const { done, value } = await reader.read();
      isComplete = done;
      if (value) more = kept.add(value);
    }
  } finally {
    over.abort();
  }
  if (isLate) return { kind: "too_slow" };
  if (more.length > 0 && !allowPartial) {
    await reader.cancel();
    return { kind: "too_long" };
  }
  kept.isPartial = more.length > 0 || !isComplete && body.length !== kept.length;
  const continued = () =>
    request.with({ body: isComplete ? kept.whole() : restOf([...kept.pieces, more], reader) });
  return { kind: "taken", body: kept, continued };
}

const NOTHING = new Uint8Array();

function restOf(
  first: readonly Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of first) if (chunk.length > 0) controller.enqueue(chunk);
    },
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

const FIRST_BYTES = 1_024;
const PIECE_BYTES = 65_536;

/**
 * Memory in proportion to the received bytes: a long announced body that does not arrive takes none, and
 * growth copies nothing.
 */
export class KeptBody implements ShownBody {
  length = 0;
  isPartial = false;
  readonly #limitBytes: number;
  #pieces: Bytes[] = [];
  /** Used bytes of the last piece. */
  #used = 0;

  /** Keeps up to `limitBytes`. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get pieces(): readonly Bytes[] {
    const last = this.#pieces.at(-1);
    return last ? [...this.#pieces.slice(0, -1), last.subarray(0, this.#used)] : [];
  }

  /** Returns the rest of the chunk, beyond the limit. */
  add(chunk: Uint8Array): Uint8Array {
    let at = 0;
    while (at < chunk.length && this.length < this.#limitBytes) {
      const piece = this.#piece();
      const part = chunk.subarray(at, at + piece.length - this.#used);
      piece.set(part, this.#used);
      this.#used += part.length;
      this.length += part.length;
      at += part.length;
    }
    return chunk.subarray(at);
  }

  /** The last piece; a new one if the last is full. */
  #piece(): Bytes {
    const last = this.#pieces.at(-1);
    if (last && this.#used < last.length) return last;
    const size = last ? Math.min(PIECE_BYTES, last.length * 2) : FIRST_BYTES;
    const piece = new Uint8Array(Math.min(size, this.#limitBytes - this.length));
    this.#pieces.push(piece);
    this.#used = 0;
    return piece;
  }

  whole(): Bytes {
    const [first = NOTHING.slice(), ...others] = this.pieces;
    if (others.length === 0) return first;
    const all = new Uint8Array(this.length);
    let at = 0;
    for (const piece of this.pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    this.isIn(all);
    return all;
  }

  isIn(bytes: Bytes): void {
    this.#pieces = [bytes];
    this.#used = bytes.length;
  }
}
