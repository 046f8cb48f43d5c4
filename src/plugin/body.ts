/**
 * Bodies as plugins see them. One that passes is chunks between two codecs, of which nothing is made here
 * unless somebody opens it; one that a plugin made is bytes or a stream.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
import type { Body, BodyContent } from "./api.ts";
import { BrokenBody } from "./broken_body.ts";

/** Where the chunks of a body come from that passes through. */
export interface PassingSource {
  /** What it is to be longer than a plugin reads. */
  readonly tooLong: ErrorCode;
  /** From now on they go into this stream, and nowhere else. Asked once, by each `body` made of it. */
  open(body: PassingBody): ReadableStream<Uint8Array>;
  /** See {@link Body.keep}. */
  keep(limitBytes: number): void;
  readonly isReplayable: boolean;
  /** A copy of all of it, where it has come and is kept; absent: it never is. */
  kept?(): Uint8Array<ArrayBuffer> | undefined;
}

/** The plugin whose body it is. */
export interface BodyOwner {
  readonly name: string;
  readonly standing: { failed(reason: string): void; passed(): void };
}

const encoder = new TextEncoder();

export class PassingBody implements Body {
  readonly length: number | null;
  readonly #source: PassingSource;
  #isOpen = false;

  /** `length`: negative where it is not known. */
  constructor(source: PassingSource, length: number) {
    this.#source = source;
    this.length = length < 0 ? null : length;
  }

  /** Somebody reads it here, so that it is not to be passed on. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isReplayable(): boolean {
    return !this.#isOpen && this.#source.isReplayable;
  }

  keep(limitBytes: number): void {
    this.#source.keep(limitBytes);
  }

  /** A copy of all of it, where it has come and is kept, and nobody opened it. */
  kept(): Uint8Array<ArrayBuffer> | undefined {
    return this.#isOpen ? undefined : this.#source.kept?.();
  }

  stream(): ReadableStream<Uint8Array> {
    if (this.#isOpen) throw new TypeError("body: it was opened before");
    this.#isOpen = true;
    return this.#source.open(this);
  }

  bytes(limitBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    const { tooLong } = this.#source;
    return readAll(this.stream(), limitBytes, (reason) => new BrokenBody(tooLong, reason));
  }
}

export class MadeBody implements Body {
  readonly length: number | null;
  /** Of a stream: who handed it on first. How the stream ends tells how that did. */
  by: BodyOwner | undefined;
  readonly #content: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

  constructor(content: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>) {
    this.#content = typeof content === "string" ? encoder.encode(content) : content;
    this.length = this.whole?.length ?? null;
  }

  /** All of it, where it need not be waited for. */
  get whole(): Uint8Array<ArrayBuffer> | undefined {
    return this.#content instanceof Uint8Array ? this.#content : undefined;
  }

  get isReplayable(): boolean {
    return this.whole !== undefined;
  }

  keep(): void {}

  /** Nobody will read it. */
  discard(): void {
    // Who reads it has to see to it itself.
    if (!this.whole) this.stream().cancel().catch(() => {});
  }

  stream(): ReadableStream<Uint8Array> {
    const content = this.#content;
    if (!(content instanceof Uint8Array)) return content;
    return new ReadableStream({
      start(controller) {
        if (content.length > 0) controller.enqueue(content);
        controller.close();
      },
    });
  }

  bytes(limitBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    return readAll(this.stream(), limitBytes, (reason) => new RangeError(reason));
  }
}

/** Whether it is a stream that `maker` handed on first. */
export function isStreamOf(body: PassingBody | MadeBody | null, maker: BodyOwner): boolean {
  if (!(body instanceof MadeBody) || body.whole) return false;
  return (body.by ??= maker) === maker;
}

/** A body of either kind; throws where it is neither content nor a body. */
export function bodyOf(content: BodyContent): PassingBody | MadeBody | null {
  if (content === null || content instanceof PassingBody || content instanceof MadeBody) {
    return content;
  }
  const isContent = typeof content === "string" || content instanceof Uint8Array ||
    content instanceof ReadableStream;
  if (!isContent) throw new TypeError("body: neither text, bytes, a stream nor a body");
  return new MadeBody(content);
}

async function readAll(
  stream: ReadableStream<Uint8Array>,
  limitBytes: number,
  tooLong: (reason: string) => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > limitBytes) {
      await reader.cancel();
      throw tooLong(`body: more than ${limitBytes} bytes`);
    }
    chunks.push(read.value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
