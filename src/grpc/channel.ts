/**
 * Calls to one server over one connection at a time, dialled when a call needs it and closed with the
 * last one. Trying again is for those who call.
 *
 * @module
 */

import { Deadlines, messageOf } from "../base/mod.ts";
import { GRPC_STATUS } from "../http/mod.ts";
import { type AnyCall, type CallContext, ClientCall } from "./call.ts";
import { GrpcConnection } from "./connection.ts";
import { type GrpcStatus, grpcStatus } from "./status.ts";
import {
  DEFAULT_GRPC_LIMITS,
  type GrpcCall,
  type GrpcChannel,
  type GrpcChannelOptions,
  type GrpcLimits,
  type MessageTypes,
  type StreamHandler,
} from "./types.ts";

export function createGrpcChannel(options: GrpcChannelOptions): GrpcChannel {
  return new Channel(options);
}

class Channel implements GrpcChannel {
  readonly #options: GrpcChannelOptions;
  readonly #limits: GrpcLimits;
  readonly #deadlines: Deadlines;
  readonly #context: CallContext;
  readonly #calls = new Map<AnyCall, GrpcConnection | undefined>();
  /** The one for new calls, also while it is dialled. */
  #connection: GrpcConnection | undefined;
  #addressIndex = 0;
  /** The last one that the next address was tried for. */
  #left: GrpcConnection | undefined;
  #closed = false;

  constructor(options: GrpcChannelOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_GRPC_LIMITS, ...options.limits };
    const { clock, random } = options;
    this.#deadlines = new Deadlines(clock);
    const onEnded = (call: AnyCall, status: GrpcStatus | null) => this.#ended(call, status);
    const onAnswered = (call: AnyCall) => {
      const connection = this.#calls.get(call);
      if (connection) connection.answered = true;
    };
    const limits = this.#limits;
    const begun = { bytes: 0, limitBytes: limits.begunBytes };
    this.#context = { clock, random, limits, begun, onEnded, onAnswered };
  }

  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    handler: StreamHandler<Response>,
  ): GrpcCall<Request> {
    const call = new ClientCall(path, types, { handler, context: this.#context });
    void this.#start(call);
    return call;
  }

  close(): void {
    this.#closed = true;
    for (const call of [...this.#calls.keys()]) call.close();
    this.#drop();
  }

  async #start(call: AnyCall): Promise<void> {
    this.#calls.set(call, undefined);
    try {
      const connection = await this.#opened();
      if (call.ended) return this.#dropIfIdle();
      this.#calls.set(call, connection);
      connection.start(call);
    } catch (error) {
      call.fail(grpcStatus(GRPC_STATUS.unavailable, messageOf(error)));
    }
  }

  /** One that takes a call. Another is dialled for it once: a server that turns calls away is no better then. */
  async #opened(): Promise<GrpcConnection> {
    for (let tried = 0; tried < 2; tried++) {
      const connection = this.#connection ??= this.#dial();
      try {
        await connection.opened;
      } catch (error) {
        if (this.#connection === connection) {
          this.#connection = undefined;
          this.#addressIndex++;
        }
        throw error;
      }
      if (connection.usable) return connection;
      // Another call that waited here as well may have dialled already.
      if (this.#connection === connection) this.#drop();
    }
    throw new Error("the server takes no more calls");
  }

  #dial(): GrpcConnection {
    const { addresses } = this.#options;
    const address = addresses[this.#addressIndex % addresses.length];
    if (!address) throw new Error("no address is known");
    return new GrpcConnection({
      channel: this.#options,
      limits: this.#limits,
      deadlines: this.#deadlines,
      address,
    });
  }

  #ended(call: AnyCall, status: GrpcStatus | null): void {
    const connection = this.#calls.get(call);
    this.#calls.delete(call);
    connection?.forget(call);
    if (connection && status && isLost(status, connection) && connection !== this.#left) {
      this.#left = connection;
      this.#addressIndex++;
      connection.retire();
    }
    this.#dropIfIdle();
  }

  #dropIfIdle(): void {
    if (this.#calls.size === 0 || this.#closed) this.#drop();
  }

  /** Takes no new calls on the connection in use. */
  #drop(): void {
    this.#connection?.retire();
    this.#connection = undefined;
  }
}

/** What a server that is not right in itself ends in, rather than in an answer to a question. */
const DEFECTS: readonly number[] = [
  GRPC_STATUS.unknown,
  GRPC_STATUS.deadlineExceeded,
  GRPC_STATUS.resourceExhausted,
  GRPC_STATUS.internal,
];

/** Said by the server or here, UNAVAILABLE means the same: look elsewhere next time. */
function isLost({ code }: GrpcStatus, { answered }: GrpcConnection): boolean {
  return code === GRPC_STATUS.unavailable || (!answered && DEFECTS.includes(code));
}
