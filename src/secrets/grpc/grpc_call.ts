/**
 * One streaming call: sends what it is given, asks for the next message when the last is dealt with, and
 * ends a peer that floods, stalls or never finishes a message.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, messageOf, type Random, type Timer } from "../../base/mod.ts";
import type { GrpcLibrary } from "./grpc_credentials.ts";
import {
  GRPC_DEADLINE_EXCEEDED,
  GRPC_INTERNAL,
  GRPC_RESOURCE_EXHAUSTED,
  type GrpcStatus,
  grpcStatus,
} from "./grpc_status.ts";
import type { GrpcCall, GrpcLimits, MessageTypes, StreamHandler } from "./grpc_types.ts";

/** The library's call below its own stream classes, which would buffer 16 messages of any size. */
export type RawCall = ReturnType<InstanceType<GrpcLibrary["Channel"]>["createCall"]>;
export type RawMetadata = InstanceType<GrpcLibrary["Metadata"]>;

export interface CallContext {
  /** A message has come. */
  readonly onAnswered: (call: AnyCall) => void;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: GrpcLimits;
  /** Before the handler hears of it; `null`: closed by its owner. */
  readonly onEnded: (call: AnyCall, status: GrpcStatus | null) => void;
}

/** A call as its connection sees it. */
export interface AnyCall {
  readonly path: string;
  readonly ended: boolean;
  start(raw: RawCall, metadata: RawMetadata): void;
  /** Ends it with an event. */
  fail(status: GrpcStatus): void;
  /** Ends it without one. */
  close(): void;
}

export class Call<Request, Response> implements GrpcCall<Request>, AnyCall {
  readonly path: string;
  readonly #types: MessageTypes<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  readonly #context: CallContext;
  #raw: RawCall | undefined;
  /** The library keeps one message that it cannot send yet, and no second one: these wait here. */
  readonly #unsent: Uint8Array[] = [];
  #unsentBytes = 0;
  #writing = false;
  #ended = false;
  #halfClosed = false;
  #deadline: Timer | undefined;
  #pause: Timer | undefined;
  #tokens: number;
  #refilledMs: number;
  #heldBackSinceMs: number | undefined;

  constructor(
    path: string,
    types: MessageTypes<Request, Response>,
    parts: { readonly handler: StreamHandler<Response>; readonly context: CallContext },
  ) {
    this.path = path;
    this.#types = types;
    this.#handler = parts.handler;
    this.#context = parts.context;
    const { clock, limits } = this.#context;
    this.#tokens = limits.messageBurst;
    this.#refilledMs = clock.monotonic();
    this.#deadline = this.#handler.onSilent
      // One that does not come about has ended the call by then, and pings tell of one that is lost.
      ? clock.after(limits.connectMs + limits.firstMessageMs / 10, () => {
        this.#awaitNext();
        this.#handler.onSilent?.();
      })
      : clock.after(limits.connectMs + limits.firstMessageMs, () => {
        this.fail(grpcStatus(GRPC_DEADLINE_EXCEEDED, "no whole message came in time"));
      });
  }

  get ended(): boolean {
    return this.#ended;
  }

  start(raw: RawCall, metadata: RawMetadata): void {
    this.#raw = raw;
    raw.start(metadata, {
      onReceiveMetadata: () => {},
      onReceiveMessage: (bytes: Uint8Array) => void this.#take(bytes),
      onReceiveStatus: ({ code, details }) => {
        this.#raw = undefined;
        this.fail(grpcStatus(code, details));
      },
    });
    this.#write();
    raw.startRead();
  }

  send(message: Request): void {
    if (this.#ended) return;
    const bytes = this.#types.encode(message);
    this.#unsentBytes += bytes.length;
    if (this.#unsentBytes > this.#context.limits.unsentBytes) {
      const status = grpcStatus(GRPC_RESOURCE_EXHAUSTED, "the server does not read our requests");
      return queueMicrotask(() => this.fail(status));
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

  #end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#unsent.length = 0;
    this.#deadline?.cancel();
    this.#pause?.cancel();
    this.#raw?.cancelWithStatus(1, "");
    this.#raw = undefined;
    return true;
  }

  #write(): void {
    const raw = this.#raw;
    if (!raw || this.#writing) return;
    const bytes = this.#unsent.shift();
    if (!bytes) {
      if (this.#halfClosed) raw.halfClose();
      this.#halfClosed = false;
      return;
    }
    this.#writing = true;
    const callback = () => {
      this.#writing = false;
      this.#unsentBytes -= bytes.length;
      this.#write();
    };
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    raw.sendMessageWithContext({ callback }, buffer);
  }

  async #take(bytes: Uint8Array): Promise<void> {
    if (this.#ended) return;
    const begunMs = this.#context.clock.monotonic();
    try {
      const message = this.#decode(bytes);
      if (message === undefined) return;
      this.#context.onAnswered(this);
      const handled = this.#handler.onMessage(message);
      if (handled) await handled;
    } catch (error) {
      return this.fail(grpcStatus(GRPC_INTERNAL, messageOf(error)));
    }
    if (this.#ended) return;
    this.#awaitNext();
    const spentMs = this.#context.clock.monotonic() - begunMs;
    const waitMs = Math.max(this.#holdBackMs(), restMs(spentMs));
    if (this.#ended) return;
    // The loop gets a turn between messages, so that a burst of them does not starve traffic.
    if (waitMs > 0) this.#pause = this.#context.clock.after(waitMs, () => this.#raw?.startRead());
    else setImmediate(() => this.#raw?.startRead());
  }

  #decode(bytes: Uint8Array): Response | undefined {
    try {
      return this.#types.decode(bytes);
    } catch (error) {
      this.fail(grpcStatus(GRPC_INTERNAL, `a message cannot be decoded: ${messageOf(error)}`));
      return undefined;
    }
  }

  #awaitNext(): void {
    const { clock, random, limits } = this.#context;
    this.#deadline?.cancel();
    this.#deadline = clock.after(limits.quietMs * (1 + random() / 2), () => {
      this.fail(grpcStatus(GRPC_DEADLINE_EXCEEDED, "quiet for long, asked anew"));
    });
  }

  /** How long the next message has to wait; 0: not at all. */
  #holdBackMs(): number {
    const { clock, limits } = this.#context;
    const nowMs = clock.monotonic();
    const refill = (nowMs - this.#refilledMs) * limits.messagesPerSecond / 1000;
    this.#tokens = Math.min(limits.messageBurst, this.#tokens + refill) - 1;
    this.#refilledMs = nowMs;
    // Half full again: that was a burst, and it is over.
    if (this.#tokens > limits.messageBurst / 2) this.#heldBackSinceMs = undefined;
    if (this.#tokens >= 0) return 0;
    this.#heldBackSinceMs ??= nowMs;
    if (nowMs - this.#heldBackSinceMs > limits.floodMs) {
      this.fail(grpcStatus(GRPC_RESOURCE_EXHAUSTED, "the server sends messages without a break"));
    }
    return -this.#tokens * 1000 / limits.messagesPerSecond;
  }
}

const REST_SHARE = 2;
const REST_LIMIT_MS = 250;

/** A server with much to say may have a third of our time; what it says meanwhile it may say at once. */
function restMs(spentMs: number): number {
  return spentMs < 1 ? 0 : Math.min(REST_LIMIT_MS, spentMs * REST_SHARE);
}
