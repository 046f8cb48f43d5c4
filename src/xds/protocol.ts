/** The common part of both variants: one subscription over a sequence of streams. Pure. @module */

import { Backoff, type Clock, type Random, type Timer } from "../base/mod.ts";
import { HeldResources, type ProtocolOptions, type ResponseFaults } from "./held_resources.ts";
import type { ErrorDetail } from "./messages.ts";

/** Its names and versions outlive each stream; `Stream` is the state of an open one. */
export abstract class XdsProtocol<T, Request, Response, Stream> {
  readonly held: HeldResources<T>;
  protected readonly options: ProtocolOptions<T, Request>;
  protected readonly acknowledgements: Acknowledgements;
  protected stream: Stream | undefined;
  #tail: Promise<void> = Promise.resolve();

  constructor(options: ProtocolOptions<T, Request>) {
    this.options = options;
    this.acknowledgements = new Acknowledgements(options.clock, options.random);
    this.held = new HeldResources(options);
  }

  /**
   * Sends a request on the open stream, if there is one. The caller ends the stream instead when no name
   * is left.
   */
  abstract change(subscribe: readonly string[], unsubscribe: readonly string[]): void;

  /** A stream is open: sends the first request. */
  abstract opened(): void;

  /** The stream is gone; messages of it that are still being handled send nothing. */
  closed(): void {
    this.stream = undefined;
    this.acknowledgements.drop();
  }

  /** Resolves when the response has been handled; later ones wait. */
  message(response: Response): Promise<void> {
    const { stream } = this;
    if (!stream) return Promise.resolve();
    this.arrived(stream);
    return this.#tail = this.#tail.then(() => this.#take(stream, response));
  }

  /** A response has arrived; earlier ones may still be handled. */
  protected arrived(_stream: Stream): void {}

  protected abstract judge(stream: Stream, response: Response): Promise<ResponseFaults>;

  /** Acknowledges a response, with the reason of a NACK. */
  protected abstract answer(stream: Stream, response: Response, error?: ErrorDetail): void;

  async #take(stream: Stream, response: Response): Promise<void> {
    if (this.stream !== stream) return;
    const faults = await this.judge(stream, response);
    if (this.stream !== stream) return;
    if (faults.any) this.answer(stream, response, faults.detail());
    else this.answer(stream, response);
  }
}

/**
 * Sends ACKs and NACKs. The first NACK goes out at once; the next ones are delayed more and more, because
 * some servers offer the same response again at once and for ever.
 */
class Acknowledgements {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  #timer: Timer | undefined;
  #delayed: (() => void) | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#backoff = new Backoff({ baseMs: 200, maxMs: 10_000, random });
  }

  /** `error`: the answer is a NACK. */
  answer(error: ErrorDetail | undefined, send: () => void): void {
    this.drop();
    if (!error) {
      this.#backoff.reset();
      return send();
    }
    const isFirst = this.#backoff.failures === 0;
    const delayMs = this.#backoff.next();
    if (isFirst) return send();
    this.#delayed = send;
    this.#timer = this.#clock.after(delayMs, () => this.flush());
  }

  /** Sends the delayed NACK; false: there was none. */
  flush(): boolean {
    const send = this.#delayed;
    this.drop();
    send?.();
    return send !== undefined;
  }

  /** A newer response makes the delayed NACK worthless. */
  drop(): void {
    this.#timer?.cancel();
    this.#delayed = undefined;
  }
}
