/**
 * One question with one answer over a connection that stands.
 *
 * @module
 */

import { type Clock, messageOf, ProxyError } from "../../base/mod.ts";
import {
  type GrpcLink,
  type GrpcStatus,
  grpcStatus,
  type MessageTypes,
  type Metadata,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import type { FlagNames } from "../flag_names.ts";
import { errorOf } from "./grpc_errors.ts";
import type { Method } from "./types.ts";

export interface AskOnceOptions {
  readonly host: string;
  readonly token: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The first message of a stream is the answer; the rest of it is not wanted. */
  readonly isStream?: boolean;
  /** Of the flags, for messages. */
  readonly names?: FlagNames;
  /** Before the promise is rejected for it. */
  readonly onStatus?: (status: GrpcStatus) => void;
}

/** Rejects as {@link Servers.call} does. */
export function askOnce<Request, Response>(
  link: GrpcLink,
  question: { readonly method: Method<Request, Response>; readonly request: Request },
  options: AskOnceOptions,
): Promise<Response> {
  const { method, request } = question;
  const { what } = method;
  const { host, token, timeoutMs, clock, signal, isStream, onStatus, names } = options;
  return new Promise((resolve, reject) => {
    let answer: { readonly message: Response } | undefined;
    let unreadable: string | undefined;
    const over = () => {
      timer.cancel();
      signal?.removeEventListener("abort", abort);
    };
    const fail = (status: GrpcStatus) => {
      onStatus?.(status);
      reject(errorOf(status, { what, host, token, unreadable, names }));
    };
    const types = messagesOf(method, (fact) => unreadable = fact);
    const abort = () => {
      over();
      call.close();
      reject(new ProxyError("closed", `Cannot ${what}: it is not wanted any more`));
    };
    const timer = clock.after(timeoutMs, () => {
      over();
      call.close();
      fail(
        grpcStatus(GRPC_STATUS.deadlineExceeded, `no answer within ${Math.round(timeoutMs)} ms`),
      );
    });
    const call = link.open(method.path, types, {
      metadata: metadataOf(token),
      handler: {
        onMessage(message) {
          if (answer) throw new Error("it has more than one answer");
          answer = { message };
          if (!isStream) return;
          over();
          call.close();
          resolve(message);
        },
        onEnd(status) {
          over();
          if (answer && status.code === GRPC_STATUS.ok) return resolve(answer.message);
          if (status.code === GRPC_STATUS.ok) unreadable = "it is empty";
          fail(status);
        },
      },
    });
    if (signal?.aborted) return abort();
    signal?.addEventListener("abort", abort);
    call.send(request);
    call.halfClose();
  });
}

/** What a call carries beside its message. */
export function metadataOf(token: string): Metadata {
  return token === "" ? {} : { "x-consul-token": token };
}

/** Why a message of the server's cannot be read is told before the call ends for it. */
export function messagesOf<Request, Response>(
  { encode, decode }: MessageTypes<Request, Response>,
  onUnreadable: (fact: string) => void,
): MessageTypes<Request, Response> {
  return {
    encode,
    decode(bytes) {
      try {
        return decode(bytes);
      } catch (error) {
        onUnreadable(messageOf(error));
        throw error;
      }
    },
  };
}
