/** Reads gRPC messages from the chunks of a body. A message within one chunk is not copied. @module */

import { GRPC_STATUS } from "../http/mod.ts";
import { type GrpcStatus, grpcStatus } from "./types.ts";

const PREFIX_BYTES = 5;
const FIRST_BYTES = 4096;
const NOTHING: Uint8Array = new Uint8Array();

/** Bytes of all calls' messages that have begun and are not handled yet. */
export interface BegunBytes {
  bytes: number;
  readonly limitBytes: number;
}

export class MessageReader {
  /** Why nothing more can be read. */
  fault: GrpcStatus | undefined;
  readonly #limitBytes: number;
  readonly #begun: BegunBytes;
  #chunk = NOTHING;
  readonly #prefix = new Uint8Array(PREFIX_BYTES);
  #prefixBytes = 0;
  /** Length of the message whose prefix is complete. */
  #length = 0;
  #message = NOTHING;
  #messageBytes = 0;
  /** Counted in {@link BegunBytes}. */
  #counted = 0;

  constructor(limitBytes: number, begun: BegunBytes) {
    this.#limitBytes = limitBytes;
    this.#begun = begun;
  }

  get isWithin(): boolean {
    return this.#prefixBytes > 0;
  }

  /** Only after `next` has given all messages of the last chunk. The reader owns the chunk from here on. */
  push(chunk: Uint8Array): void {
    this.#chunk = chunk;
  }

  /** The next complete message; undefined: more is needed, or there is a `fault`. */
  next(): Uint8Array | undefined {
    // The last message was handled.
    if (!this.isWithin) this.#release();
    while (this.#prefixBytes < PREFIX_BYTES) {
      if (this.#chunk.length === 0) return undefined;
      const part = this.#take(PREFIX_BYTES - this.#prefixBytes);
      this.#prefix.set(part, this.#prefixBytes);
      this.#prefixBytes += part.length;
      if (this.#prefixBytes === PREFIX_BYTES) this.#begin();
    }
    if (this.fault) return undefined;
    if (this.#messageBytes === 0 && this.#chunk.length >= this.#length) {
      this.#prefixBytes = 0;
      return this.#take(this.#length);
    }
    const part = this.#take(this.#length - this.#messageBytes);
    if (!this.#hasRoom(this.#messageBytes + part.length)) return undefined;
    this.#message.set(part, this.#messageBytes);
    this.#messageBytes += part.length;
    if (this.#messageBytes < this.#length) return undefined;
    const whole = this.#message.subarray(0, this.#length);
    this.#forget();
    return whole;
  }

  drop(): void {
    this.#forget();
    this.#release();
  }

  #forget(): void {
    this.#message = NOTHING;
    this.#messageBytes = this.#prefixBytes = 0;
  }

  #release(): void {
    this.#begun.bytes -= this.#counted;
    this.#counted = 0;
  }

  #take(size: number): Uint8Array {
    const part = this.#chunk.subarray(0, size);
    this.#chunk = size < this.#chunk.length ? this.#chunk.subarray(size) : NOTHING;
    return part;
  }

  #begin(): void {
    const flags = this.#prefix[0];
    this.#length = new DataView(this.#prefix.buffer).getUint32(1);
    if (flags !== 0) {
      const fact = flags === 1
        ? "a message is compressed, which was not offered"
        : "what comes is not framed as messages of gRPC are";
      this.fault = grpcStatus(GRPC_STATUS.internal, fact);
    } else if (this.#length > this.#limitBytes) {
      const fact = `a message of ${this.#length} bytes is above the limit of ${this.#limitBytes}`;
      this.fault = grpcStatus(GRPC_STATUS.resourceExhausted, fact);
    }
  }

  #hasRoom(size: number): boolean {
    if (size <= this.#message.length) return true;
    const more = Math.min(this.#length, Math.max(size, this.#message.length * 2, FIRST_BYTES));
    const begun = this.#begun;
    if (begun.bytes + more - this.#counted > begun.limitBytes) {
      const fact = `messages that have begun hold more than ${begun.limitBytes} bytes`;
      this.fault = grpcStatus(GRPC_STATUS.resourceExhausted, fact);
      return false;
    }
    begun.bytes += more - this.#counted;
    this.#counted = more;
    const grown = new Uint8Array(more);
    grown.set(this.#message.subarray(0, this.#messageBytes));
    this.#message = grown;
    return true;
  }
}

export function framed(message: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(PREFIX_BYTES + message.length);
  new DataView(bytes.buffer).setUint32(1, message.length);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}
