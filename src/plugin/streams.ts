/**
 * Between chunks that are told and streams that are asked: what a plugin opens, and what it made.
 *
 * @module
 */

/** Chunks of a message that somebody reads as a stream. */
export class OpenedBody {
  readonly stream: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  /** `more`: the source may go on; `cancel`: nobody reads it any more. */
  constructor(source: { more(): void; cancel(): void }) {
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => source.more(),
      cancel: () => {
        this.#controller = undefined;
        source.cancel();
      },
    }, { highWaterMark: WINDOW_BYTES, size: (chunk) => chunk.length });
  }

  /** False: stop until `more`. */
  put(chunk: Uint8Array): boolean {
    const controller = this.#controller;
    if (!controller) return true;
    controller.enqueue(chunk);
    return (controller.desiredSize ?? 0) > 0;
  }

  end(): void {
    this.#controller?.close();
    this.#controller = undefined;
  }

  fail(reason: string): void {
    this.#controller?.error(new Error(reason));
    this.#controller = undefined;
  }
}

/** What is read ahead of whoever reads. */
const WINDOW_BYTES = 64 * 1024;

/** Where what a plugin made goes. */
export interface Sink {
  /** False: wait until {@link Pump.resume}. */
  send(chunk: Uint8Array): boolean;
  end(): void;
  /** The stream failed, or gave something that is no bytes. */
  fail(reason: string): void;
}

/** Carries a stream to a sink. */
export class Pump {
  readonly #stream: ReadableStream<Uint8Array>;
  readonly #sink: Sink;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #over = false;
  #resume: (() => void) | undefined;
  #paused = false;
  #isStarted = false;

  constructor(stream: ReadableStream<Uint8Array>, sink: Sink) {
    this.#stream = stream;
    this.#sink = sink;
  }

  get isStarted(): boolean {
    return this.#isStarted;
  }

  get isOver(): boolean {
    return this.#over;
  }

  start(): void {
    this.#isStarted = true;
    this.#carry().catch((error) => {
      if (this.#over) return;
      this.#over = true;
      this.#sink.fail(error instanceof Error ? error.message : String(error));
    });
  }

  async #carry(): Promise<void> {
    // Throws where somebody else reads it.
    const reader = this.#reader = this.#stream.getReader();
    while (!this.#over) {
      const { done, value } = await reader.read();
      if (this.#over) return;
      if (done) {
        this.#over = true;
        return this.#sink.end();
      }
      if (!(value instanceof Uint8Array)) throw new TypeError("the body's stream gave no bytes");
      if (value.length > 0 && !this.#sink.send(value)) this.#paused = true;
      if (this.#paused) await new Promise<void>((resolve) => this.#resume = resolve);
    }
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }

  /** Nobody wants the rest. */
  stop(): void {
    if (this.#over) return;
    this.#over = true;
    // Its owner may have failed, or somebody else reads it, which nobody needs to know any more.
    (this.#reader ?? this.#stream).cancel().catch(() => {});
    this.resume();
  }
}
