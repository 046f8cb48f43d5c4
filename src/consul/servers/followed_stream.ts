/** A server's stream that is kept open over changes of the server and the token. @module */

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
import type { FlagNames } from "../model/flag_names.ts";
import { errorOf, isOverload, isUnauthenticated, messagesOf, metadataOf } from "./calls.ts";
import type { Method, Server, StreamSink } from "./types.ts";

/** The target of calls. */
export interface CallTarget {
  readonly server: Server;
  readonly link: GrpcLink;
}

/** The parts of the session that a stream uses. */
export interface StreamSession {
  readonly clock: Clock;
  readonly random: Random;
  /** For messages. */
  readonly names?: FlagNames;
  /** Undefined while no server is found, or there is no token yet. */
  target(): CallTarget | undefined;
  /** The token of calls now; `""`: none. */
  token(): string;
  rejected(token: string): void;
  leave(server: Server, reason: string): void;
  /** Counts an end, or `ok` for a stream that delivers. */
  count(resource: string, result: string): void;
}

/** Streams of one proxy, and of many that move together, are spread over this time. */
const MOVE_SPREAD_MS = 250;
/** A stream that lasted this long counts as one that worked, however it ended. */
const LASTING_MS = 60_000;
/** After so many failures in a row another server is tried. */
const FAILURES = 4;
/** Only an operator mends these. */
const HOPELESS: readonly number[] = [GRPC_STATUS.unimplemented, GRPC_STATUS.invalidArgument];
/** These are about us, not about the server. */
const OURS: readonly number[] = [
  GRPC_STATUS.unauthenticated,
  GRPC_STATUS.permissionDenied,
  GRPC_STATUS.notFound,
  ...HOPELESS,
];

/** Server and token of the stream that is open now. */
interface Opened {
  readonly server: Server;
  readonly token: string;
  unreadable: string | undefined;
}

export class FollowedStream<Request, Response> {
  readonly #method: Method<Request, Response>;
  readonly #request: Request;
  readonly #sink: StreamSink<Response>;
  readonly #session: StreamSession;
  readonly #backoff: Backoff;
  readonly #longBackoff: Backoff;
  readonly #stream: KeptStream<Response>;
  #opened: Opened | undefined;
  #renewals = 0;

  constructor(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly sink: StreamSink<Response>; readonly session: StreamSession },
  ) {
    this.#method = method;
    this.#request = request;
    this.#sink = options.sink;
    this.#session = options.session;
    const { random, clock } = options.session;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 10_000, random });
    this.#longBackoff = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    this.#stream = new KeptStream({
      clock,
      open: (handler) => this.#open(handler),
      onMessage: (message, isFirst) => {
        if (isFirst) this.#session.count(this.#method.resource, "ok");
        this.#sink.onMessage(message);
      },
      onEnd: (end) => this.#ended(end),
    });
    this.#stream.start();
  }

  /** There is another server or token: opens the stream there, or with it, within a moment. */
  renew(): void {
    this.#stream.renew(this.#renewals++ === 0 ? 0 : this.#session.random() * MOVE_SPREAD_MS);
  }

  stop(): void {
    this.#stream.stop();
  }

  #open(handler: StreamHandler<Response>): OpenStream | undefined {
    const target = this.#session.target();
    if (!target) return undefined;
    const { server, link } = target;
    const opened: Opened = { server, token: this.#session.token(), unreadable: undefined };
    this.#opened = opened;
    const types = messagesOf(this.#method, (fact) => opened.unreadable = fact);
    const metadata = metadataOf(opened.token);
    const call = link.open(this.#method.path, types, { metadata, handler });
    call.send(this.#request);
    call.halfClose();
    return call;
  }

  #ended({ status, answered, isWell, isBrief, livedMs }: StreamEnd): Reopening {
    const endedWell = isWell && !isBrief;
    if (endedWell || answered && livedMs >= LASTING_MS) this.#backoff.reset();
    return endedWell ? this.#session.random() * MOVE_SPREAD_MS : this.#failed(status);
  }

  #failed(status: GrpcStatus): Reopening {
    if (!this.#opened) return "on_request";
    const { server, token, unreadable } = this.#opened;
    const { what, resource } = this.#method;
    const { names } = this.#session;
    const error = errorOf(status, { what, host: server.host, token, unreadable, names });
    this.#session.count(resource, error.code);
    const delays = HOPELESS.includes(status.code) ? this.#longBackoff : this.#backoff;
    const delayMs = delays.next();
    if (isUnauthenticated(status)) this.#session.rejected(token);
    const isFault = !OURS.includes(status.code) && this.#backoff.failures % FAILURES === 0;
    if (isOverload(status) || isFault) this.#session.leave(server, error.message);
    this.#sink.onError(error);
    return delayMs;
  }
}
