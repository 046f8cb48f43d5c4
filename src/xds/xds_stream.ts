/** One subscription kept alive over a sequence of streams. An opened stream proves nothing. @module */

import type { BackoffOptions, Clock, Timer } from "../base/mod.ts";
import {
  type GrpcCall,
  type GrpcChannel,
  KeptStream,
  type MessageTypes,
  type Reopening,
  type StreamEnd,
} from "../grpc/mod.ts";
import { GRPC_STATUS } from "../http/mod.ts";
import { DeltaProtocol } from "./delta.ts";
import { deltaMessages, sotwMessages } from "./messages.ts";
import type { ProtocolOptions } from "./held_resources.ts";
import type { XdsProtocol } from "./protocol.ts";
import { SotwProtocol } from "./sotw.ts";

export type XdsVariant = "sotw" | "delta";

interface XdsStreamEvents {
  onOpening(names: ReadonlySet<string>): void;
  /** A message came, or a server without changes stayed silent for long enough. */
  onWell(): void;
  /** `stop`: no further stream is opened; the owner closes this subscription. */
  onEnded(end: StreamEnd): "again" | "stop";
}

interface XdsStreamOptions<T> extends Omit<ProtocolOptions<T, never>, "send"> {
  readonly channel: GrpcChannel;
  readonly variant: XdsVariant;
  readonly methods: Readonly<Record<XdsVariant, string>>;
  readonly events: XdsStreamEvents;
  /** For faults of this stream. */
  readonly retry: SharedRetry;
  /** For a lost server: shared by all streams to it. */
  readonly lost: SharedRetry;
}

export class XdsStream<T> {
  readonly #options: XdsStreamOptions<T>;
  readonly #protocol: Pick<XdsProtocol<T, never, never, never>, "held" | "change" | "closed">;
  readonly #stream: KeptStream<never>;
  #closed = false;

  constructor(options: XdsStreamOptions<T>) {
    this.#options = options;
    const { variant, type } = options;
    const { protocol, stream } = variant === "sotw"
      ? this.#speaking(sotwMessages(type), SotwProtocol)
      : this.#speaking(deltaMessages(type), DeltaProtocol);
    this.#protocol = protocol;
    this.#stream = stream;
  }

  get names(): ReadonlySet<string> {
    return this.#protocol.held.names;
  }

  /** The stream opens with the first name and closes with the last. */
  change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    if (this.#closed) return;
    this.#protocol.change(subscribe, unsubscribe);
    if (this.names.size > 0) this.#stream.start();
    else this.#end();
  }

  /** There may be another server now: ends a wait, and the next wait is a first one. */
  refresh(): void {
    this.#options.retry.reset();
    this.#options.lost.reset();
    this.#stream.refresh();
  }

  close(): void {
    this.#closed = true;
    this.#end();
    this.#protocol.held.close();
  }

  #speaking<Request, Response>(
    types: MessageTypes<Request, Response>,
    Variant: new (
      options: ProtocolOptions<T, Request>,
    ) => XdsProtocol<T, Request, Response, unknown>,
  ) {
    const { channel, methods, variant, clock, events } = this.#options;
    let call: GrpcCall<Request> | undefined;
    const protocol = new Variant({
      ...this.#options,
      send: (request: Request) => call?.send(request),
    });
    const stream = new KeptStream<Response>({
      clock,
      open: ({ onSilent, ...handler }) => {
        events.onOpening(protocol.held.names);
        // A server need not answer a client that holds everything.
        const silent = protocol.held.isComplete && onSilent ? { onSilent } : {};
        call = channel.open(methods[variant], types, { ...handler, ...silent });
        protocol.opened();
        return call;
      },
      onMessage: (message) => {
        this.#onWell();
        return protocol.message(message);
      },
      onSilent: () => this.#onWell(),
      onEnd: (end) => this.#ended(end),
    });
    return { protocol, stream };
  }

  #onWell(): void {
    this.#options.retry.reset();
    this.#options.lost.reset();
    this.#options.events.onWell();
  }

  #ended(end: StreamEnd): Reopening {
    this.#protocol.closed();
    const { events, retry, lost } = this.#options;
    if (events.onEnded(end) === "stop" || this.names.size === 0) return "on_request";
    const waiting = end.status.code === GRPC_STATUS.unavailable ? lost : retry;
    return (open) => waiting.wait(open);
  }

  #end(): void {
    this.#stream.stop();
    this.#protocol.closed();
  }
}

/**
 * Waits of [0, b), b doubling from `baseMs` to `maxMs` until `reset`. Full jitter keeps many proxies from
 * returning in step; streams that wait at the same time wait together, and return over one connection.
 */
export class SharedRetry {
  readonly #options: BackoffOptions & { readonly clock: Clock };
  readonly #waiting = new Set<() => void>();
  #timer: Timer | undefined;
  #failures = 0;

  constructor(options: BackoffOptions & { readonly clock: Clock }) {
    this.#options = options;
  }

  /** The next wait is a first one. */
  reset(): void {
    this.#failures = 0;
  }

  /** Calls `fn` after the current wait, or a new one. */
  wait(fn: () => void): Timer {
    // Each wait needs an entry of its own, also with the same function.
    const waiter = () => fn();
    this.#waiting.add(waiter);
    if (!this.#timer) {
      const { clock, random, baseMs, maxMs } = this.#options;
      const ceilingMs = Math.min(maxMs, baseMs * 2 ** Math.min(this.#failures, 30));
      this.#failures++;
      this.#timer = clock.after(random() * ceilingMs, () => this.#fire());
    }
    return {
      cancel: () => {
        if (!this.#waiting.delete(waiter) || this.#waiting.size > 0) return;
        this.#timer?.cancel();
        this.#timer = undefined;
      },
    };
  }

  #fire(): void {
    this.#timer = undefined;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const waiter of waiting) waiter();
  }
}
