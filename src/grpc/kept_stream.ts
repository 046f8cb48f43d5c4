/** One server stream that is kept open: opened again as its owner decides, or beside the old one. @module */

import type { Clock } from "../base/mod.ts";
import { GRPC_STATUS } from "../http/mod.ts";
import type { GrpcStatus, StreamHandler } from "./types.ts";

/** A stream as its owner opened it. No event comes after `close`. */
export interface OpenStream {
  close(): void;
}

export interface StreamEnd {
  readonly status: GrpcStatus;
  /** A message came, or `onSilent` was called. */
  readonly answered: boolean;
  /** It answered, and ended with OK or by our own deadline for streams that were quiet for long. */
  readonly isWell: boolean;
  /** It lived for less than a second: opening it again at once would be a loop. */
  readonly isBrief: boolean;
  readonly livedMs: number;
}

/**
 * When the next stream is opened: after so many milliseconds; after a wait that several streams share; or
 * only when the owner calls `refresh` or `renew`.
 */
export type Reopening = number | ((open: () => void) => { cancel(): void }) | "on_request";

interface KeptStreamOptions<T> {
  readonly clock: Pick<Clock, "after" | "monotonic">;
  /** Opens a stream; its events come later. Undefined: none can be opened now, the last one goes on. */
  open(handler: StreamHandler<T>): OpenStream | undefined;
  /** See {@link StreamHandler}. `isFirst`: the first message of its stream. */
  onMessage(message: T, isFirst: boolean): void | Promise<void>;
  /** See {@link StreamHandler}. */
  readonly onSilent?: () => void;
  /**
   * Decides when the next stream is opened. It may call any method of the stream; a call that opens or stops
   * a stream then decides in place of the result.
   */
  onEnd(end: StreamEnd): Reopening;
}

const BRIEF_MS = 1_000;

interface Opened {
  readonly openedMs: number;
  answered: boolean;
  stream: OpenStream | undefined;
}

export class KeptStream<T> {
  readonly #options: KeptStreamOptions<T>;
  #current: Opened | undefined;
  /** Delivers until the current one does. */
  #previous: Opened | undefined;
  #wait: { cancel(): void } | undefined;
  #stopped = true;

  constructor(options: KeptStreamOptions<T>) {
    this.#options = options;
  }

  /** Opens a stream, unless one is open or a wait for the next one runs. */
  start(): void {
    this.#stopped = false;
    if (!this.#current && !this.#wait) this.#open();
  }

  /** Ends the wait for the next stream, however long it was to be. Nothing happens while one is open. */
  refresh(): void {
    if (!this.#current) this.#open();
  }

  /**
   * Opens another stream after a delay. The stream that delivers now goes on until the new one has a
   * message.
   */
  renew(delayMs: number): void {
    if (!this.#stopped) this.#openAfter(delayMs);
  }

  /** Closes open streams without an event, and ends the wait. */
  stop(): void {
    this.#stopped = true;
    this.#cancelWait();
    const streams = [this.#current, this.#previous];
    this.#current = this.#previous = undefined;
    for (const opened of streams) opened?.stream?.close();
  }

  #openAfter(delayMs: number): void {
    this.#cancelWait();
    this.#wait = this.#options.clock.after(delayMs, () => this.#open());
  }

  #cancelWait(): void {
    this.#wait?.cancel();
    this.#wait = undefined;
  }

  #open(): void {
    this.#cancelWait();
    if (this.#stopped) return;
    const { clock } = this.#options;
    const openedMs = clock.monotonic();
    const opened: Opened = { openedMs, answered: false, stream: undefined };
    opened.stream = this.#options.open(this.#handlerOf(opened));
    if (!opened.stream) return;
    const before = this.#current;
    this.#current = opened;
    if (before?.answered) {
      this.#previous?.stream?.close();
      this.#previous = before;
    } else before?.stream?.close();
  }

  #handlerOf(opened: Opened): StreamHandler<T> {
    const { onSilent } = this.#options;
    return {
      onMessage: (message) => {
        const isFirst = !opened.answered;
        this.#answered(opened);
        return this.#options.onMessage(message, isFirst);
      },
      onEnd: (status) => this.#ended(opened, status),
      ...onSilent && {
        onSilent: () => {
          this.#answered(opened);
          onSilent();
        },
      },
    };
  }

  #answered(opened: Opened): void {
    opened.answered = true;
    if (opened !== this.#current) return;
    this.#previous?.stream?.close();
    this.#previous = undefined;
  }

  #ended(opened: Opened, status: GrpcStatus): void {
    // The stream that another one replaces has to end some time.
    if (opened === this.#previous) this.#previous = undefined;
    if (opened !== this.#current) return;
    this.#current = undefined;
    const { answered } = opened;
    const livedMs = this.#options.clock.monotonic() - opened.openedMs;
    const { code } = status;
    const next = this.#options.onEnd({
      status,
      answered,
      isWell: answered && (code === GRPC_STATUS.ok || code === GRPC_STATUS.deadlineExceeded),
      isBrief: livedMs < BRIEF_MS,
      livedMs,
    });
    if (this.#stopped || this.#current || this.#wait || next === "on_request") return;
    if (typeof next === "number") this.#openAfter(next);
    else this.#wait = next(() => this.#open());
  }
}
