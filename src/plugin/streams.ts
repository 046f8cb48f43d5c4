/**
 * Between chunks that are told and streams that are asked: what a plugin opens, and what it made.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
import type { MadeBody } from "./body.ts";
import { BrokenBody, brokenBodyOf } from "./broken_body.ts";
import { faultOf } from "./source_positions.ts";

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

  /** Its reader has all that came, and waits for its sender. */
  get waitsForSender(): boolean {
    return this.#controller?.desiredSize === WINDOW_BYTES;
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

  fail(code: ErrorCode, reason: string): void {
    this.#controller?.error(new BrokenBody(code, reason));
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
  /** With what the stream failed of, or that it gave something which is no bytes. */
  fail(error: unknown): void;
}

/** Carries a stream to a sink. */
export class Pump {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #sink: Sink;
  #over = false;
  #resume: (() => void) | undefined;
  #paused = false;
  #isStarted = false;

  /** Throws where somebody else reads it. */
  constructor(stream: ReadableStream<Uint8Array>, sink: Sink) {
    this.#reader = stream.getReader();
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
      this.#leave();
      this.#sink.fail(error);
    });
  }

  async #carry(): Promise<void> {
    while (!this.#over) {
      const { done, value } = await this.#reader.read();
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
    this.#leave();
    this.resume();
  }

  #leave(): void {
    // Its owner may have failed, which nobody needs to know any more.
    this.#reader.cancel().catch(() => {});
  }
}

/**
 * Carries a body to a sink, and says how its plugin did by that. `null`: somebody else reads its stream,
 * and `fail` has been told.
 */
export function pumpOf(whose: "request" | "response", body: MadeBody, sink: {
  readonly send: Sink["send"];
  readonly end: Sink["end"];
  fail(code: ErrorCode, reason: string): void;
}): Pump | null {
  const { by } = body;
  const fail = (error: unknown) => {
    // What it was made of broke.
    const broken = brokenBodyOf(error);
    if (broken) return sink.fail(broken.code, broken.message);
    const fault = `the ${whose}'s body: ${faultOf(error)}`;
    by?.standing.failed(fault);
    sink.fail("plugin_failed", by ? `${by.name}: ${fault}` : fault);
  };
  const end = () => {
    by?.standing.passed();
    sink.end();
  };
  try {
    return new Pump(body.stream(), { send: sink.send, end, fail });
  } catch (error) {
    fail(error);
    return null;
  }
}
