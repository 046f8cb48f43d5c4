/**
 * Calls over one connection that is dialled at once and never again, for those who choose among servers
 * themselves and want to know at once when one is lost.
 *
 * @module
 */

import { Deadlines } from "../base/mod.ts";
import { GRPC_STATUS } from "../http/mod.ts";
import { type AnyCall, type CallContext, ClientCall } from "./call.ts";
import { GrpcConnection } from "./connection.ts";
import { grpcStatus } from "./status.ts";
import {
  DEFAULT_GRPC_LIMITS,
  type GrpcCall,
  type GrpcLink,
  type GrpcLinkOptions,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";

export function dialGrpcLink(options: GrpcLinkOptions): GrpcLink {
  return new Link(options);
}

class Link implements GrpcLink {
  readonly #connection: GrpcConnection;
  readonly #context: CallContext;
  readonly #calls = new Set<AnyCall>();

  constructor(options: GrpcLinkOptions) {
    const { clock, random, address, onLost } = options;
    const limits = { ...DEFAULT_GRPC_LIMITS, ...options.limits };
    this.#connection = new GrpcConnection({
      ...{ channel: options, limits, address, onLost },
      deadlines: new Deadlines(clock),
    });
    this.#context = {
      ...{ clock, random, limits },
      begun: { bytes: 0, limitBytes: limits.begunBytes },
      onAnswered: () => {},
      onEnded: (call) => {
        this.#calls.delete(call);
        this.#connection.forget(call);
      },
    };
  }

  get opened(): Promise<void> {
    return this.#connection.opened;
  }

  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    options: { readonly handler: StreamHandler<Response>; readonly metadata: Metadata },
  ): GrpcCall<Request> {
    const call = new ClientCall(path, types, { ...options, context: this.#context });
    this.#calls.add(call);
    if (this.#connection.usable) this.#connection.start(call);
    else {
      const status = grpcStatus(GRPC_STATUS.unavailable, "the connection takes no calls");
      queueMicrotask(() => call.fail(status));
    }
    return call;
  }

  drain(): void {
    this.#connection.retire();
  }

  close(): void {
    for (const call of [...this.#calls]) call.close();
    this.#connection.retire();
  }
}
