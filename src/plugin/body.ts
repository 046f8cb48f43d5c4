/** Bodies as plugins see them. A passing body costs nothing unless a plugin opens it. @module */

import type { ErrorCode } from "../base/mod.ts";
import type { Body, BodyContent } from "./api.ts";

/** A body that ended early or is too long: the plugin that read it did not fail. */
export class BrokenBody extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, reason: string) {
    super(reason);
    this.code = code;
  }
}

/** The broken body that caused an error; plugins may have wrapped it in an error of their own. */
export function brokenBodyOf(error: unknown): BrokenBody | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof BrokenBody) return cause;
  }
  return undefined;
}

export interface PassingSource {
  /** The code of a body that is longer than a plugin's limit. */
  readonly tooLong: ErrorCode;
  /** From now on the chunks go into the stream only. Each `body` of this source calls it once. */
  open(body: PassingBody): ReadableStream<Uint8Array>;
  /** See {@link Body.keep}. */
  keep(limitBytes: number): void;
  readonly isReplayable: boolean;
  /** A copy of the whole body, if it arrived and was kept; absent: it never is. */
  kept?(): Uint8Array<ArrayBuffer> | undefined;
}

export interface BodyOwner {
  readonly name: string;
  readonly health: { failed(reason: string): void; passed(): void };
}

/** The errors of a body that is longer than a limit, or is not what it should be. */
interface BodyFaults {
  readonly tooLong: (reason: string) => Error;
  readonly broken: (reason: string) => Error;
}

/** Those of a body that a plugin made. */
export const MADE_FAULTS: BodyFaults = {
  tooLong: (reason) => new RangeError(reason),
  broken: (reason) => new TypeError(reason),
};

const encoder = new TextEncoder();

export class PassingBody implements Body {
  readonly length: number | null;
  readonly #source: PassingSource;
  #isOpen = false;

  /** `length`: negative if unknown. */
  constructor(source: PassingSource, length: number) {
    this.#source = source;
    this.length = length < 0 ? null : length;
  }

  /** A plugin reads the body, so it is not passed on. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isReplayable(): boolean {
    return !this.#isOpen && this.#source.isReplayable;
  }

  keep(limitBytes: number): void {
    this.#source.keep(limitBytes);
  }

  /** A copy of the whole body, if it arrived, was kept and was not opened. */
  kept(): Uint8Array<ArrayBuffer> | undefined {
    return this.#isOpen ? undefined : this.#source.kept?.();
  }

  stream(): ReadableStream<Uint8Array> {
    if (this.#isOpen) throw new TypeError("body: it was opened before");
    this.#isOpen = true;
    return this.#source.open(this);
  }

  bytes(limitBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    return readAll(this.stream(), limitBytes, this.faults.tooLong);
  }

  get faults(): BodyFaults {
    const { tooLong } = this.#source;
    const broken = tooLong === "request_too_large" ? "request_invalid" : "response_invalid";
    return {
      tooLong: (reason) => new BrokenBody(tooLong, reason),
      broken: (reason) => new BrokenBody(broken, reason),
    };
  }
}

export class MadeBody implements Body {
  readonly length: number | null;
  /** The plugin that passed on the stream first. The end of the stream decides whether the plugin failed. */
  by: BodyOwner | undefined;
  readonly #content: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

  constructor(content: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>) {
    this.#content = typeof content === "string" ? encoder.encode(content) : content;
    this.length = this.whole?.length ?? null;
  }

  get whole(): Uint8Array<ArrayBuffer> | undefined {
    return this.#content instanceof Uint8Array ? this.#content : undefined;
  }

  get isReplayable(): boolean {
    return this.whole !== undefined;
  }

  keep(): void {}

  discard(): void {
    // A stream with a reader is left to that reader.
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
    return readAll(this.stream(), limitBytes, MADE_FAULTS.tooLong);
  }
}

/** Whether the body is a stream that `maker` passed on first. */
export function isStreamOf(body: PassingBody | MadeBody | null, maker: BodyOwner): boolean {
  if (!(body instanceof MadeBody) || body.whole) return false;
  return (body.by ??= maker) === maker;
}

/** Throws if `content` is neither content nor a body. */
export function bodyOf(content: BodyContent): PassingBody | MadeBody | null {
  if (content === null || content instanceof PassingBody || content instanceof MadeBody) {
    return content;
  }
  const isKnown = typeof content === "string" || content instanceof Uint8Array ||
    content instanceof ReadableStream;
  if (!isKnown) throw new TypeError("body: neither text, bytes, a stream nor a body");
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
  return joined(chunks, length);
}

/** `length`: of all chunks together. */
export function joined(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
