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
  DEFAULT_GRPC_LIMITS,
  type GrpcCall,
  type GrpcLink,
  type GrpcLinkOptions,
  grpcStatus,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";

export function dialGrpcLink(options: GrpcLinkOptions): GrpcLink {
  return new Link(options);
}

class Link implements GrpcLink {
  readonly opened: Promise<void>;
  readonly #connections: CallConnections;
  readonly #context: CallContext;
  readonly #calls = new Set<AnyCall>();
  readonly #onLost: (reason: string) => void;
  /** Its owner knows that it takes no calls any more. */
  #isLeft = false;

  constructor(options: GrpcLinkOptions) {
    const { clock, random, address, onLost } = options;
    const limits = { ...DEFAULT_GRPC_LIMITS, ...options.limits };
    this.#onLost = onLost;
    this.#connections = new CallConnections({
      connection: options,
      connectMs: limits.connectMs,
      address: () => address,
      events: {
        onDraining: () => this.#lost("the server takes no more calls"),
        onClosed: (_connection, end) => this.#lost(whyEnded(end)),
      },
    });
    this.#context = {
      clock,
      random,
      limits,
      begun: { bytes: 0, limitBytes: limits.begunBytes },
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

  drain(): void {
    this.#isLeft = true;
    this.#connections.drain();
  }

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
