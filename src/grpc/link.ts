/**
 * Calls over one connection that is dialled at once and never again, for owners who choose among servers
 * themselves and must know at once when one is lost.
 *
 * @module
 */

import { GRPC_STATUS, whyEnded } from "../http/mod.ts";
import { type AnyCall, type CallContext, ClientCall } from "./call.ts";
import { CallConnections } from "./call_connections.ts";
import {
  type GrpcCall,
  type GrpcLinkOptions,
  grpcStatus,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";

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
    this.#context = {
      ...this.#connections.context,
      onEnded: (call) => this.#calls.delete(call),
    };
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
