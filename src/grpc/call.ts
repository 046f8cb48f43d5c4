/** One streaming call. It ends when the peer floods, stalls or never completes a message. @module */

import { type Clock, messageOf, type Random, type Timer } from "../base/mod.ts";
import {
  type ClientExchange,
  decodeGrpcMessage,
  fieldOf,
  type Fields,
  GRPC_STATUS,
  grpcStatusOf,
  isGrpc,
  readGrpcStatus,
  type ResetReason,
  type ResponseEvents,
  type ResponseHead,
} from "../http/mod.ts";
import { type BegunBytes, framed, MessageReader } from "./message_reader.ts";
import {
  type GrpcCall,
  type GrpcLimits,
  type GrpcStatus,
  grpcStatus,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";

/** The part of {@link CallContext} that all calls of a connection share. */
export interface SharedContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: GrpcLimits;
  readonly begun: BegunBytes;
}

export interface CallContext extends SharedContext {
  /** A message came. */
  readonly onAnswered?: (call: AnyCall) => void;
  /** Called before the handler's `onEnd`; `null`: closed by its owner. */
  readonly onEnded: (call: AnyCall, status: GrpcStatus | null) => void;
}

export type AnyCall = Pick<
  ClientCall<never, never>,
  "path" | "metadata" | "ended" | "start" | "fail" | "close"
>;

/** Status codes for a stream that broke ("Errors" of gRPC over HTTP/2). */
const CODES: Readonly<Record<ResetReason, number>> = {
  refused: GRPC_STATUS.unavailable,
  cancelled: GRPC_STATUS.cancelled,
  protocol: GRPC_STATUS.internal,
  connection: GRPC_STATUS.unavailable,
  timed_out: GRPC_STATUS.unavailable,
  overflow: GRPC_STATUS.resourceExhausted,
  internal: GRPC_STATUS.internal,
};

export class ClientCall<Request, Response> implements GrpcCall<Request>, ResponseEvents {
  readonly path: string;
  /** Sent with this call alone. */
  readonly metadata: Metadata;
  readonly #types: MessageTypes<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  readonly #context: CallContext;
  readonly #reader: MessageReader;
  readonly #pace: Pace;
  #exchange: ClientExchange | undefined;
  /** Messages that wait for the connection, or for a slow server. */
  readonly #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  #blocked = false;
  #halfClosed = false;
  #ended = false;
  #deadline: Timer | undefined;
  #pause: Timer | undefined;

  constructor(
    path: string,
    types: MessageTypes<Request, Response>,
    parts: {
      readonly handler: StreamHandler<Response>;
      readonly context: CallContext;
      readonly metadata?: Metadata;
    },
  ) {
    this.path = path;
    this.metadata = parts.metadata ?? {};
    this.#types = types;
    this.#handler = parts.handler;
    this.#context = parts.context;
    const { clock, limits, begun } = this.#context;
    this.#reader = new MessageReader(limits.messageBytes, begun);
    this.#pace = new Pace(clock, limits);
    this.#deadline = this.#handler.onSilent
      // A connection that failed has ended the call by then, and PINGs find one that is lost.
      ? clock.after(limits.connectMs + limits.firstMessageMs / 10, () => {
        this.#awaitNext();
        this.#handler.onSilent?.();
      })
      : clock.after(limits.connectMs + limits.firstMessageMs, () => {
        this.#failWith(GRPC_STATUS.deadlineExceeded, "no whole message came in time");
      });
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** `request` sends the head. */
  start(request: (events: ResponseEvents) => ClientExchange): void {
    this.#exchange = request(this);
    this.#write();
  }

  send(message: Request): void {
    if (this.#ended) return;
    const bytes = framed(this.#types.encode(message));
    this.#unsentBytes += bytes.length;
    if (this.#unsentBytes > this.#context.limits.unsentBytes) {
      return queueMicrotask(() => {
        this.#failWith(GRPC_STATUS.resourceExhausted, "the server does not read our requests");
      });
    }
    this.#unsent.push(bytes);
    this.#write();
  }

  halfClose(): void {
    this.#halfClosed = true;
    this.#write();
  }

  close(): void {
    if (this.#end()) this.#context.onEnded(this, null);
  }

  fail(status: GrpcStatus): void {
    if (!this.#end()) return;
    this.#context.onEnded(this, status);
    this.#handler.onEnd(status);
  }

  // From the exchange.

  onInformational(): void {}

  onResponse({ status, fields }: ResponseHead, ends: boolean): void {
    if (ends || status !== 200 || !isGrpc(fields)) this.#noMessages(status, fields);
  }

  onData(chunk: Uint8Array): void {
    this.#reader.push(chunk);
    this.#readNext();
  }

  onEnd(trailers: Fields = []): void {
    const cut = this.#reader.isWithin && !readGrpcStatus(trailers);
    if (!cut) return this.#statusIn(trailers);
    this.#failWith(GRPC_STATUS.internal, "the server ended the call within a message");
  }

  onDrain(): void {
    this.#blocked = false;
    this.#write();
  }

  onReset(reason: ResetReason, detail: string): void {
    this.#failWith(CODES[reason], detail);
  }

  /** A response without messages: trailers only, or no gRPC at all. */
  #noMessages(httpStatus: number, fields: Fields): void {
    if (httpStatus !== 200 && readGrpcStatus(fields) === undefined) {
      const fact = `the server answers with HTTP status ${httpStatus}, not with gRPC`;
      return this.#failWith(grpcStatusOf(httpStatus), fact);
    }
    if (isGrpc(fields)) return this.#statusIn(fields);
    const type = fieldOf(fields, "content-type") ?? "no content type";
    this.#failWith(GRPC_STATUS.unknown, `the server answers with ${type}, not with gRPC`);
  }

  #statusIn(fields: Fields): void {
    const code = readGrpcStatus(fields);
    if (code === undefined) {
      return this.#failWith(GRPC_STATUS.unknown, "the server ended the call without a status");
    }
    this.#failWith(code, decodeGrpcMessage(fieldOf(fields, "grpc-message") ?? ""));
  }

  #end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#unsent.length = 0;
    this.#deadline?.cancel();
    this.#pause?.cancel();
    this.#reader.drop();
    // Does nothing where both messages are complete.
    this.#exchange?.reset("cancelled");
    this.#exchange = undefined;
    return true;
  }

  #write(): void {
    const exchange = this.#exchange;
    if (!exchange || this.#blocked) return;
    for (let bytes = this.#unsent.shift(); bytes; bytes = this.#unsent.shift()) {
      this.#unsentBytes -= bytes.length;
      if (exchange.send(bytes)) continue;
      this.#blocked = true;
      return;
    }
    if (this.#halfClosed) exchange.end();
  }

  /** Reading stops while a message is handled. */
  #readNext(): void {
    if (this.#ended) return;
    const bytes = this.#reader.next();
    if (this.#reader.fault) return this.fail(this.#reader.fault);
    if (!bytes) return this.#exchange?.resume();
    this.#exchange?.pause();
    void this.#take(bytes);
  }

  async #take(bytes: Uint8Array): Promise<void> {
    const { clock, onAnswered } = this.#context;
    const begunMs = clock.monotonic();
    try {
      let message: Response;
      try {
        message = this.#types.decode(bytes);
      } catch (error) {
        const fact = `a message cannot be decoded: ${messageOf(error)}`;
        return this.#failWith(GRPC_STATUS.internal, fact);
      }
      onAnswered?.(this);
      const handled = this.#handler.onMessage(message);
      if (handled) await handled;
    } catch (error) {
      return this.#failWith(GRPC_STATUS.internal, messageOf(error));
    }
    if (this.#ended) return;
    this.#awaitNext();
    const waitMs = this.#pace.waitMs(begunMs);
    if (waitMs === "flood") {
      const fact = "the server sends messages without a break";
      return this.#failWith(GRPC_STATUS.resourceExhausted, fact);
    }
    // The loop gets a turn between messages, so that a burst of them does not starve traffic.
    if (waitMs > 0) this.#pause = clock.after(waitMs, () => this.#readNext());
    else setImmediate(() => this.#readNext());
  }

  #failWith(code: number, fact: string): void {
    this.fail(grpcStatus(code, fact));
  }

  #awaitNext(): void {
    const { clock, random, limits } = this.#context;
    this.#deadline?.cancel();
    this.#deadline = clock.after(limits.quietMs * (1 + random() / 2), () => {
      this.#failWith(GRPC_STATUS.deadlineExceeded, "quiet for long, asked anew");
    });
  }
}

const REST_SHARE = 2;
const REST_LIMIT_MS = 250;

export class Pace {
  readonly #clock: Clock;
  readonly #limits: GrpcLimits;
  #tokens: number;
  #refilledMs: number;
  #heldBackSinceMs: number | undefined;

  constructor(clock: Clock, limits: GrpcLimits) {
    this.#clock = clock;
    this.#limits = limits;
    this.#tokens = limits.messageBurst;
    this.#refilledMs = clock.monotonic();
  }

  /** A message that began at `begunMs` was handled: how long the next one has to wait. */
  waitMs(begunMs: number): number | "flood" {
    const { messageBurst, messagesPerSecond, floodMs } = this.#limits;
    const nowMs = this.#clock.monotonic();
    const refill = (nowMs - this.#refilledMs) * messagesPerSecond / 1000;
    this.#tokens = Math.min(messageBurst, this.#tokens + refill) - 1;
    this.#refilledMs = nowMs;
    // Half full again: that was a burst, and it is over.
    if (this.#tokens > messageBurst / 2) this.#heldBackSinceMs = undefined;
    const spentMs = nowMs - begunMs;
    const restMs = spentMs < 1 ? 0 : Math.min(REST_LIMIT_MS, spentMs * REST_SHARE);
    if (this.#tokens >= 0) return restMs;
    this.#heldBackSinceMs ??= nowMs;
    if (nowMs - this.#heldBackSinceMs > floodMs) return "flood";
    return Math.max(restMs, -this.#tokens * 1000 / messagesPerSecond);
  }
}
