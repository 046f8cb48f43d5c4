/**
 * Calls to one server over one connection at a time, dialled when a call needs it and closed with the
 * last one. Trying again is for those who call.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { type AnyCall, Call, type CallContext } from "./grpc_call.ts";
import { Connection } from "./grpc_connection.ts";
import { loadGrpcLibrary } from "./grpc_credentials.ts";
import {
  GRPC_DEADLINE_EXCEEDED,
  GRPC_INTERNAL,
  GRPC_RESOURCE_EXHAUSTED,
  GRPC_UNAVAILABLE,
  GRPC_UNKNOWN,
  type GrpcStatus,
  grpcStatus,
} from "./grpc_status.ts";
import {
  DEFAULT_GRPC_LIMITS,
  type GrpcCall,
  type GrpcChannel,
  type GrpcChannelOptions,
  type GrpcLimits,
  type MessageTypes,
  type StreamHandler,
} from "./grpc_types.ts";

export function createGrpcChannel(options: GrpcChannelOptions): GrpcChannel {
  return new Channel(options);
}

class Channel implements GrpcChannel {
  readonly #options: GrpcChannelOptions;
  readonly #limits: GrpcLimits;
  readonly #context: CallContext;
  readonly #calls = new Map<AnyCall, Connection | undefined>();
  #connection: Promise<Connection> | undefined;
  #addressIndex = 0;
  /** The last one that the next address was tried for. */
  #left: Connection | undefined;
  #closed = false;

  constructor(options: GrpcChannelOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_GRPC_LIMITS, ...options.limits };
    const { clock, random } = options;
    const onEnded = (call: AnyCall, status: GrpcStatus | null) => this.#ended(call, status);
    const onAnswered = (call: AnyCall) => {
      const connection = this.#calls.get(call);
      if (connection) connection.answered = true;
    };
    this.#context = { clock, random, limits: this.#limits, onEnded, onAnswered };
  }

  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    handler: StreamHandler<Response>,
  ): GrpcCall<Request> {
    const call = new Call(path, types, { handler, context: this.#context });
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
      const connection = await this.#connected();
      if (call.ended) return this.#dropIfIdle();
      this.#calls.set(call, connection);
      connection.start(call);
    } catch (error) {
      this.#connection = undefined;
      this.#addressIndex++;
      call.fail(grpcStatus(GRPC_UNAVAILABLE, messageOf(error)));
    }
  }

  async #connected(): Promise<Connection> {
    const current = this.#connection;
    if (current) {
      const connection = await current;
      if (connection.usable) return connection;
      // Another call that waited here as well may have dialled already.
      if (this.#connection === current) this.#drop();
    }
    return await (this.#connection ??= this.#dial());
  }

  async #dial(): Promise<Connection> {
    const { addresses, tls } = this.#options;
    const address = addresses[this.#addressIndex % addresses.length];
    if (!address) throw new Error("no address is known");
    const [library, material] = await Promise.all([loadGrpcLibrary(), tls?.material() ?? null]);
    return new Connection({
      library,
      channel: this.#options,
      limits: this.#limits,
      address,
      material,
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
    // One that could not be made has told its calls.
    void this.#connection?.then((connection) => connection.retire(), () => {});
    this.#connection = undefined;
  }
}

/** What a server that is not right in itself ends in, rather than in an answer to a question. */
const DEFECTS: readonly number[] = [
  GRPC_UNKNOWN,
  GRPC_DEADLINE_EXCEEDED,
  GRPC_RESOURCE_EXHAUSTED,
  GRPC_INTERNAL,
];

/** Said by the server or by the library, UNAVAILABLE means the same: look elsewhere next time. */
function isLost({ code }: GrpcStatus, { answered }: Connection): boolean {
  return code === GRPC_UNAVAILABLE || (!answered && DEFECTS.includes(code));
}
