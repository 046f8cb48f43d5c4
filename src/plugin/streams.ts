/** Converts between pushed chunks and pulled streams, for bodies that plugins open and make. @module */

import type { ErrorCode } from "../base/mod.ts";
import { type BodyOwner, BrokenBody, brokenBodyOf, type MadeBody } from "./body.ts";
import { faultOf } from "./source_positions.ts";

export class OpenedBody {
  readonly stream: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  /** `more`: the source may continue; `cancel`: the reader cancelled. */
  constructor(source: { more(): void; cancel(): void }) {
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#controller = controller),
      pull: () => source.more(),
      cancel: () => {
        this.#controller = undefined;
        source.cancel();
      },
    }, { highWaterMark: WINDOW_BYTES, size: (chunk) => chunk.length });
  }

  /** The reader has consumed all chunks and waits for the sender. */
  get waitsForSender(): boolean {
    return this.#controller?.desiredSize === WINDOW_BYTES;
  }

  /** False: the source stops until `more`. */
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

  fail(code: ErrorCode, reason: string): void {
    this.#controller?.error(new BrokenBody(code, reason));
    this.#controller = undefined;
  }
}

/** Bytes buffered ahead of the reader. */
const WINDOW_BYTES = 64 * 1024;

interface PumpSink {
  /** False: wait until {@link Pump.resume}. */
  send(chunk: Uint8Array): boolean;
  end(): void;
  fail(code: ErrorCode, reason: string): void;
}

/** Copies the body of a plugin to a sink, and records success or failure of the plugin. */
export class Pump {
  readonly #whose: "request" | "response";
  readonly #by: BodyOwner | undefined;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #sink: PumpSink;
  isStarted = false;
  isOver = false;
  #isPaused = false;
  #resume: (() => void) | undefined;

  /** Throws if the stream has another reader. */
  constructor(whose: "request" | "response", body: MadeBody, sink: PumpSink) {
    this.#whose = whose;
    this.#by = body.by;
    this.#sink = sink;
    this.#reader = body.stream().getReader();
  }

  start(): void {
    this.isStarted = true;
    this.#copy().catch((error) => {
      if (this.isOver) return;
      this.isOver = true;
      this.#cancel();
      fail(this.#whose, this.#by, { error, sink: this.#sink });
    });
  }

  async #copy(): Promise<void> {
    while (!this.isOver) {
      const { done, value } = await this.#reader.read();
      if (this.isOver) return;
      if (done) {
        this.isOver = true;
        this.#by?.health.passed();
        return this.#sink.end();
      }
      if (!(value instanceof Uint8Array)) throw new TypeError("the body's stream gave no bytes");
      if (value.length > 0 && !this.#sink.send(value)) this.#isPaused = true;
      if (this.#isPaused) await new Promise<void>((resolve) => this.#resume = resolve);
    }
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }

  /** The rest is no longer wanted. */
  stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#cancel();
    this.resume();
  }

  #cancel(): void {
    // An error of the abandoned stream does not matter.
    this.#reader.cancel().catch(() => {});
  }
}

/** `null`: the stream has another reader; `fail` was called. */
export function pumpOf(whose: "request" | "response", body: MadeBody, sink: PumpSink): Pump | null {
  try {
    return new Pump(whose, body, sink);
  } catch (error) {
    fail(whose, body.by, { error, sink });
    return null;
  }
}

function fail(whose: "request" | "response", by: BodyOwner | undefined, { error, sink }: {
  readonly error: unknown;
  readonly sink: PumpSink;
}): void {
  // The body that the stream was made from broke.
  const broken = brokenBodyOf(error);
  if (broken) return sink.fail(broken.code, broken.message);
  const fault = `the ${whose}'s body: ${faultOf(error)}`;
  by?.health.failed(fault);
  sink.fail("plugin_failed", by ? `${by.name}: ${fault}` : fault);
}
