/** Calls to one server, and calls over one connection. Calling again after a failure is left to the callers. @module */

import type { Address } from "../base/mod.ts";
import { GRPC_STATUS, whyEnded } from "../http/mod.ts";
import type { Dial } from "../net/mod.ts";
import { type AnyCall, type CallContext, ClientCall } from "./call.ts";
import { type CallConnection, CallConnections } from "./call_connections.ts";
import {
  type GrpcCall,
  type GrpcChannelOptions,
  type GrpcLinkOptions,
  type GrpcStatus,
  grpcStatus,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";

/** The connection of a call, or its wait for one. */
interface Route {
  connection?: CallConnection;
  dial?: Dial;
}

/** The server is dialled when a call needs it and left with the last call. */
export class GrpcChannel {
  readonly #connections: CallConnections;
  readonly #context: CallContext;
  readonly #addresses: readonly Address[];
  readonly #calls = new Map<AnyCall, Route>();
  /** A call on it has had a message. */
  readonly #answered = new WeakSet<CallConnection>();
  #addressIndex = 0;
  /** The connection that the next address was tried for last. */
  #left: CallConnection | undefined;

  constructor(options: GrpcChannelOptions) {
    this.#addresses = options.addresses;
    this.#connections = new CallConnections({
      connection: options,
      address: () => this.#address(),
      events: { onDialFailed: () => this.#addressIndex++ },
    });
    this.#context = {
      ...this.#connections.context,
      onEnded: (call, status) => this.#ended(call, status),
      onAnswered: (call) => {
        const connection = this.#calls.get(call)?.connection;
        if (connection) this.#answered.add(connection);
      },
    };
  }

  /** `path`: `/package.Service/Method`. Events come later, never before this returns. */
  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    handler: StreamHandler<Response>,
  ): GrpcCall<Request> {
    const call = new ClientCall(path, types, { handler, context: this.#context });
    const route: Route = {};
    this.#calls.set(call, route);
    route.dial = this.#connections.reach({
      onDialled: (connection) => {
        route.connection = connection;
        this.#connections.start(call, connection);
      },
      onFailed: ({ reason }) =>
        queueMicrotask(() => call.fail(grpcStatus(GRPC_STATUS.unavailable, reason))),
    });
    return call;
  }

  /** Ends every call without an event, and the connections. */
  close(): void {
    for (const call of [...this.#calls.keys()]) call.close();
    this.#connections.drain();
  }

  #address(): Address {
    const address = this.#addresses[this.#addressIndex % this.#addresses.length];
    if (!address) throw new Error("no address is known");
    return address;
  }

  #ended(call: AnyCall, status: GrpcStatus | null): void {
    const { connection, dial } = this.#calls.get(call) ?? {};
    this.#calls.delete(call);
    dial?.cancel();
    if (connection && status && this.#isLost(status, connection) && connection !== this.#left) {
      this.#left = connection;
      this.#addressIndex++;
      connection.client.drain();
    }
    if (this.#calls.size === 0) this.#connections.renew();
  }

  /** UNAVAILABLE means the same from the server and from here: the next call goes elsewhere. */
  #isLost({ code }: GrpcStatus, connection: CallConnection): boolean {
    return code === GRPC_STATUS.unavailable ||
      !this.#answered.has(connection) && DEFECTS.includes(code);
  }
}

/** How calls end at a server that is not right in itself; other codes answer a question. */
const DEFECTS: readonly number[] = [
  GRPC_STATUS.unknown,
  GRPC_STATUS.deadlineExceeded,
  GRPC_STATUS.resourceExhausted,
  GRPC_STATUS.internal,
];

/**
 * Calls over one connection that is dialled at once and never again, for owners who choose among servers
 * themselves and must know at once when one is lost.
 */
export class GrpcLink {
  /** The server takes calls; rejects with the reason where it does not. */
  readonly opened: Promise<void>;
  readonly #connections: CallConnections;
  readonly #context: CallContext;
  readonly #calls = new Set<AnyCall>();
  readonly #onLost: (reason: string) => void;
  /** Its owner knows that it takes no calls any more. */
  #isLeft = false;

  constructor(options: GrpcLinkOptions) {
    const { address, onLost } = options;
    this.#onLost = onLost;
    this.#connections = new CallConnections({
      connection: options,
      address: () => address,
      events: {
        onDraining: () => this.#lost("the server takes no more calls"),
        onClosed: (_connection, end) => this.#lost(whyEnded(end)),
      },
    });
    this.#context = { ...this.#connections.context, onEnded: (call) => this.#calls.delete(call) };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    promise.catch(() => {});
    this.#connections.reach({
      onDialled: () => resolve(),
      onFailed: ({ reason }) => reject(new Error(reason)),
    });
  }

  /** See `GrpcChannel`. A call before `opened`, or after the end, fails. */
  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    options: { readonly handler: StreamHandler<Response>; readonly metadata: Metadata },
  ): GrpcCall<Request> {
    const call = new ClientCall(path, types, { ...options, context: this.#context });
    this.#calls.add(call);
    const connection = this.#isLeft ? undefined : this.#connections.ready();
    if (connection) this.#connections.start(call, connection);
    else {
      const status = grpcStatus(GRPC_STATUS.unavailable, "the connection takes no calls");
      queueMicrotask(() => call.fail(status));
    }
    return call;
  }

  /** No new calls; the connection ends with the last one. */
  drain(): void {
    this.#isLeft = true;
    this.#connections.drain();
  }

  /** Ends every call without an event, and the connection. */
  close(): void {
    for (const call of [...this.#calls]) call.close();
    this.drain();
  }

  #lost(reason: string): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#onLost(reason);
  }
}
