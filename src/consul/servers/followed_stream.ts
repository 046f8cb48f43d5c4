/** A server's stream that is kept open over changes of the server and the token. @module */

import { Backoff } from "../../base/mod.ts";
import {
  type GrpcLink,
  type GrpcStatus,
  KeptStream,
  type OpenStream,
  type Reopening,
  type StreamHandler,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { CommonDeps } from "../model/consul.ts";
import { errorOf, isOverload, isUnauthenticated, messagesOf, metadataOf } from "./calls.ts";
import type { FlagNames } from "../model/flag_names.ts";
import type { ConsulServers, Method, Server, StreamSink } from "./types.ts";

export interface CallTarget {
  readonly server: Server;
  readonly link: GrpcLink;
}

export interface StreamSession
  extends Pick<ConsulServers, "leave">, Pick<CommonDeps, "clock" | "random"> {
  readonly names: FlagNames;
  target(): CallTarget | undefined;
  token(): string;
  rejected(token: string): void;
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

export interface FollowedStream {
  /** There is another server or token: opens the stream there, or with it, within a moment. */
  renew(): void;
  stop(): void;
}

export function followStream<Request, Response>(
  method: Method<Request, Response>,
  request: Request,
  { sink, session }: { readonly sink: StreamSink<Response>; readonly session: StreamSession },
): FollowedStream {
  const { clock, random, names } = session;
  const { what, resource } = method;
  const backoff = new Backoff({ baseMs: 500, maxMs: 10_000, random });
  const longBackoff = new Backoff({ baseMs: 60_000, maxMs: 300_000, random });
  let opened: Opened | undefined;
  let renewals = 0;
  const open = (handler: StreamHandler<Response>): OpenStream | undefined => {
    const target = session.target();
    if (!target) return undefined;
    const { server, link } = target;
    const now: Opened = { server, token: session.token(), unreadable: undefined };
    opened = now;
    const types = messagesOf(method, (fact) => now.unreadable = fact);
    const call = link.open(method.path, types, { metadata: metadataOf(now.token), handler });
    call.send(request);
    call.halfClose();
    return call;
  };
  const failed = (status: GrpcStatus): Reopening => {
    if (!opened) return "on_request";
    const { server, token, unreadable } = opened;
    const error = errorOf(status, { what, host: server.host, token, unreadable, names });
    session.count(resource, error.code);
    const delayMs = (HOPELESS.includes(status.code) ? longBackoff : backoff).next();
    if (isUnauthenticated(status)) session.rejected(token);
    const isFault = !OURS.includes(status.code) && backoff.failures % FAILURES === 0;
    if (isOverload(status) || isFault) session.leave(server, error.message);
    sink.onError(error);
    return delayMs;
  };
  const stream = new KeptStream<Response>({
    clock,
    open,
    onMessage(message, isFirst) {
      if (isFirst) session.count(resource, "ok");
      sink.onMessage(message);
    },
    onEnd({ status, answered, isWell, isBrief, livedMs }) {
      const endedWell = isWell && !isBrief;
      if (endedWell || answered && livedMs >= LASTING_MS) backoff.reset();
      return endedWell ? random() * MOVE_SPREAD_MS : failed(status);
    },
  });
  stream.start();
  return {
    renew: () => stream.renew(renewals++ === 0 ? 0 : random() * MOVE_SPREAD_MS),
    stop: () => stream.stop(),
  };
}
