/**
 * A stream of messages for as long as it is wanted: opened again when it ends, on another server when all
 * moves there, and with another token before the old one ends.
 *
 * @module
 */

import { Backoff, type Clock, type Random } from "../../base/mod.ts";
import {
  type GrpcLink,
  type GrpcStatus,
  KeptStream,
  type OpenStream,
  type Reopening,
  type StreamEnd,
  type StreamHandler,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { FlagNames } from "../flag_names.ts";
import { messagesOf, metadataOf } from "./ask_once.ts";
import { errorOf, isOverload, isUnauthenticated } from "./grpc_errors.ts";
import type { Method, Server, StreamSink } from "./types.ts";

/** Where calls go. */
export interface CallTarget {
  readonly server: Server;
  readonly link: GrpcLink;
}

/** What a stream needs of the session. */
export interface StreamSession {
  readonly clock: Clock;
  readonly random: Random;
  /** Undefined while none is found, or there is no token yet. */
  place(): CallTarget | undefined;
  /** What calls carry now; `""`: none. */
  token(): string;
  rejected(token: string): void;
  /** Of the flags, for messages. */
  readonly names?: FlagNames;
  leave(server: Server, reason: string): void;
  /** `ok`: it delivers. */
  count(resource: string, result: string): void;
}

export interface AnyStream {
  /** There is another server or token: it is opened there, or with it, within a moment. */
  renew(): void;
  stop(): void;
}

/** Streams of one proxy, and of many that move together, do not all come at once. */
const MOVE_SPREAD_MS = 250;
/** One that lasted so long counts as one that worked, however it ended. */
const LASTING_MS = 60_000;
/** A server that fails so often in a row has something that another may not have. */
const FAILURES = 4;
/** For what only an operator mends. */
const HOPELESS: readonly number[] = [GRPC_STATUS.unimplemented, GRPC_STATUS.invalidArgument];
/** For what says something about us, not about the server. */
const OURS: readonly number[] = [
  GRPC_STATUS.unauthenticated,
  GRPC_STATUS.permissionDenied,
  GRPC_STATUS.notFound,
  ...HOPELESS,
];

/** What the stream that is open now was opened with. */
interface Opened {
  readonly target: CallTarget;
  readonly token: string;
  unreadable: string | undefined;
}

export class FollowedStream<Request, Response> implements AnyStream {
  readonly #method: Method<Request, Response>;
  readonly #request: Request;
  readonly #sink: StreamSink<Response>;
  readonly #host: StreamSession;
  readonly #backoff: Backoff;
  readonly #patience: Backoff;
  readonly #stream: KeptStream<Response>;
  #opened: Opened | undefined;
  #renewals = 0;

  constructor(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly sink: StreamSink<Response>; readonly host: StreamSession },
  ) {
    this.#method = method;
    this.#request = request;
    this.#sink = options.sink;
    this.#host = options.host;
    const { random, clock } = options.host;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 10_000, random });
    this.#patience = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    this.#stream = new KeptStream({
      clock,
      open: (handler) => this.#open(handler),
      onMessage: (message, isFirst) => {
        if (isFirst) this.#host.count(this.#method.resource, "ok");
        this.#sink.onMessage(message);
      },
      onEnd: (end) => this.#ended(end),
    });
    this.#stream.start();
  }

  renew(): void {
    this.#stream.renew(this.#renewals++ === 0 ? 0 : this.#host.random() * MOVE_SPREAD_MS);
  }

  stop(): void {
    this.#stream.stop();
  }

  #open(handler: StreamHandler<Response>): OpenStream | undefined {
    const target = this.#host.place();
    if (!target) return undefined;
    const opened: Opened = { target, token: this.#host.token(), unreadable: undefined };
    this.#opened = opened;
    const types = messagesOf(this.#method, (fact) => opened.unreadable = fact);
    const metadata = metadataOf(opened.token);
    const call = target.link.open(this.#method.path, types, { metadata, handler });
    call.send(this.#request);
    call.halfClose();
    return call;
  }

  #ended({ status, answered, isWell, isBrief, livedMs }: StreamEnd): Reopening {
    const endedWell = isWell && !isBrief;
    if (endedWell || answered && livedMs >= LASTING_MS) this.#backoff.reset();
    return endedWell ? this.#host.random() * MOVE_SPREAD_MS : this.#failed(status);
  }

  #failed(status: GrpcStatus): Reopening {
    if (!this.#opened) return "on_request";
    const { target: { server }, token, unreadable } = this.#opened;
    const { what, resource } = this.#method;
    const { names } = this.#host;
    const error = errorOf(status, { what, host: server.host, token, unreadable, names });
    this.#host.count(resource, error.code);
    const delays = HOPELESS.includes(status.code) ? this.#patience : this.#backoff;
    const delayMs = delays.next();
    if (isUnauthenticated(status)) this.#host.rejected(token);
    const isFault = !OURS.includes(status.code) && this.#backoff.failures % FAILURES === 0;
    if (isOverload(status) || isFault) this.#host.leave(server, error.message);
    this.#sink.onError(error);
    return delayMs;
  }
}
