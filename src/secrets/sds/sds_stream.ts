/**
 * One subscription kept alive over one stream after the other. Between two it waits: full jitter, from
 * the first wait again once a message has come (not when a stream opens: that proves nothing).
 *
 * @module
 */

import type { Clock, Random, Timer } from "../../base/mod.ts";
import type { GrpcCall, GrpcChannel, GrpcStatus, MessageTypes } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { SdsServer } from "../plan.ts";
import { DeltaProtocol } from "./delta.ts";
import { DELTA_TYPES, SDS_METHODS, type SdsClient, SOTW_TYPES } from "./sds_messages.ts";
import type { ProtocolHost, ProtocolOptions, SdsProtocol } from "./sds_protocol.ts";
import { Retry } from "./sds_retry.ts";
import { SotwProtocol } from "./sotw.ts";

export type SdsVariant = "sotw" | "delta";

export interface StreamEnd {
  readonly status: GrpcStatus;
  /** It had answered, and was ended in good order or by us after a long quiet. */
  readonly wasWell: boolean;
}

export interface SdsStreamEvents {
  onOpening(names: ReadonlySet<string>): void;
  /** A message came, or none where none is due. */
  onWell(): void;
  /** What to do: open another one after a wait, or nothing, since the owner closes this subscription. */
  onEnded(end: StreamEnd): "again" | "stop";
}

export interface SdsStreamOptions {
  readonly channel: GrpcChannel;
  readonly variant: SdsVariant;
  readonly server: SdsServer;
  /** Of this program. */
  readonly version: string;
  readonly host: ProtocolHost;
  readonly events: SdsStreamEvents;
  readonly clock: Clock;
  readonly random: Random;
  /** Shared by the streams of a server. */
  readonly lost: Retry;
}

/** By the server's configuration. */
export function retryOf(
  { clock, random, server }: Pick<SdsStreamOptions, "clock" | "random" | "server">,
): Retry {
  const { backoffBaseMs: baseMs, backoffMaxMs: maxMs } = server;
  return new Retry({ clock, random, baseMs, maxMs });
}

export class SdsStream {
  readonly #options: SdsStreamOptions;
  readonly #protocol: SdsProtocol<never>;
  readonly #retry: Retry;
  readonly #open: () => { close(): void };
  #call: { close(): void } | undefined;
  #timer: Timer | undefined;
  #answered = false;
  #closed = false;

  constructor(options: SdsStreamOptions) {
    this.#options = options;
    this.#retry = retryOf(options);
    const { variant } = options;
    const { protocol, open } = variant === "sotw"
      ? this.#speaking(SDS_METHODS.sotw, SOTW_TYPES, SotwProtocol)
      : this.#speaking(SDS_METHODS.delta, DELTA_TYPES, DeltaProtocol);
    this.#protocol = protocol;
    this.#open = open;
  }

  get names(): ReadonlySet<string> {
    return this.#protocol.names;
  }

  /** The stream opens with its first name and closes with its last. */
  change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    if (this.#closed) return;
    this.#protocol.change(subscribe, unsubscribe);
    if (this.#protocol.names.size === 0) this.#end();
    else if (!this.#call && !this.#timer) this.#start();
  }

  /** There may be another server now: ends a wait, and the next one is a first one. */
  refresh(): void {
    this.#retry.reset();
    this.#options.lost.reset();
    if (this.#timer) this.#start();
  }

  close(): void {
    this.#closed = true;
    this.#end();
    this.#protocol.close();
  }

  /** A variant of the protocol, and what opens a stream of it. */
  #speaking<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    Variant: new (client: SdsClient, options: ProtocolOptions<Request>) => SdsProtocol<Response>,
  ) {
    const { channel, server, version, host, clock, random } = this.#options;
    let call: GrpcCall<Request>;
    const send = (request: Request) => call.send(request);
    const client = { node: server.node, version };
    const protocol = new Variant(client, { host, clock, random, send });
    return { protocol, open: () => call = channel.open(path, types, this.#handler(protocol)) };
  }

  #start(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#answered = false;
    this.#options.events.onOpening(this.#protocol.names);
    this.#call = this.#open();
    this.#protocol.opened();
  }

  #handler<T>(protocol: SdsProtocol<T>) {
    const onWell = () => {
      this.#retry.reset();
      this.#options.lost.reset();
      this.#answered = true;
      this.#options.events.onWell();
    };
    return {
      onMessage: (message: T): Promise<void> => {
        onWell();
        return protocol.message(message);
      },
      ...(protocol.isComplete && { onSilent: onWell }),
      onEnd: (status: GrpcStatus): void => this.#ended(status),
    };
  }

  #ended(status: GrpcStatus): void {
    this.#call = undefined;
    this.#protocol.closed();
    const well = status.code === GRPC_STATUS.ok || status.code === GRPC_STATUS.deadlineExceeded;
    const wasWell = this.#answered && well;
    const next = this.#options.events.onEnded({ status, wasWell });
    if (next === "stop" || this.#closed || this.#call || this.#protocol.names.size === 0) return;
    // The server is lost for all alike; any other reason is this stream's own.
    const retry = status.code === GRPC_STATUS.unavailable ? this.#options.lost : this.#retry;
    this.#timer = retry.wait(() => this.#start());
  }

  #end(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#call?.close();
    this.#call = undefined;
    this.#protocol.closed();
  }
}
