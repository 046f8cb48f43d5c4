/**
 * A stream of messages for as long as it is wanted: opened again when it ends, on another server when all
 * moves there, and with another token before the old one ends.
 *
 * @module
 */

import { Backoff, type Clock, type Random, type Timer } from "../../base/mod.ts";
import { type GrpcCall, type GrpcLink, type GrpcStatus } from "../../grpc/mod.ts";
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
/** One that ended well is opened again soon, unless it had hardly begun. */
const SHORT_LIVED_MS = 1_000;
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

interface Opened {
  readonly place: CallTarget;
  readonly token: string;
  readonly openedMs: number;
  call: GrpcCall<never> | undefined;
  answered: boolean;
  unreadable: string | undefined;
}

export class FollowedStream<Request, Response> implements AnyStream {
  readonly #method: Method<Request, Response>;
  readonly #request: Request;
  readonly #sink: StreamSink<Response>;
  readonly #host: StreamSession;
  readonly #backoff: Backoff;
  readonly #patience: Backoff;
  #current: Opened | undefined;
  /** Delivers until the current one does. */
  #previous: Opened | undefined;
  #timer: Timer | undefined;
  #stopped = false;
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
    const { random } = options.host;
    this.#backoff = new Backoff({ baseMs: 500, maxMs: 10_000, random });
    this.#patience = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
    // Later, as all events.
    this.#openAfter(0);
  }

  renew(): void {
    this.#openAfter(this.#renewals++ === 0 ? 0 : this.#host.random() * MOVE_SPREAD_MS);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#current?.call?.close();
    this.#previous?.call?.close();
    this.#current = this.#previous = undefined;
  }

  #openAfter(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#host.clock.after(delayMs, () => this.#open());
  }

  #open(): void {
    const place = this.#host.place();
    if (!place || this.#stopped) return;
    if (this.#current?.answered) {
      this.#previous?.call?.close();
      this.#previous = this.#current;
    } else this.#current?.call?.close();
    const { clock } = this.#host;
    const opened: Opened = {
      ...{ place, token: this.#host.token(), openedMs: clock.monotonic() },
      ...{ call: undefined, answered: false, unreadable: undefined },
    };
    this.#current = opened;
    const types = messagesOf(this.#method, (fact) => opened.unreadable = fact);
    const call = place.link.open(this.#method.path, types, {
      metadata: metadataOf(opened.token),
      handler: {
        onMessage: (message) => this.#take(opened, message),
        onEnd: (status) => this.#ended(opened, status),
      },
    });
    opened.call = call;
    call.send(this.#request);
    call.halfClose();
  }

  #take(opened: Opened, message: Response): void {
    if (!opened.answered) {
      opened.answered = true;
      this.#host.count(this.#method.resource, "ok");
      if (opened === this.#current) {
        this.#previous?.call?.close();
        this.#previous = undefined;
      }
    }
    this.#sink.onMessage(message);
  }

  #ended(opened: Opened, status: GrpcStatus): void {
    // What delivered until now ends, as it had to.
    if (opened === this.#previous) this.#previous = undefined;
    if (opened !== this.#current) return;
    this.#current = undefined;
    const { clock } = this.#host;
    const livedMs = clock.monotonic() - opened.openedMs;
    const brief = livedMs < SHORT_LIVED_MS;
    // After a message the deadline is our own, for streams that were quiet for long.
    const well = opened.answered &&
      (status.code === GRPC_STATUS.ok || status.code === GRPC_STATUS.deadlineExceeded);
    if (well && !brief || opened.answered && livedMs >= LASTING_MS) this.#backoff.reset();
    if (well && !brief) return this.#openAfter(this.#host.random() * MOVE_SPREAD_MS);
    this.#failed(opened, status);
  }

  #failed({ place, token, unreadable }: Opened, status: GrpcStatus): void {
    const { what, resource } = this.#method;
    const { server } = place;
    const error = errorOf(status, {
      ...{ what, host: server.host, token, unreadable },
      names: this.#host.names,
    });
    this.#host.count(resource, error.code);
    const hopeless = HOPELESS.includes(status.code);
    this.#openAfter((hopeless ? this.#patience : this.#backoff).next());
    if (isUnauthenticated(status)) this.#host.rejected(token);
    const isFault = !OURS.includes(status.code) && this.#backoff.failures % FAILURES === 0;
    if (isOverload(status) || isFault) this.#host.leave(server, error.message);
    this.#sink.onError(error);
  }
}
