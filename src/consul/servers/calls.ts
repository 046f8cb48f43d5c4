/**
 * A single gRPC call to one of Consul's servers, and the end of a call or stream as an error with a code
 * of ours.
 *
 * @module
 */

import { type Clock, type ErrorCode, messageOf, ProxyError } from "../../base/mod.ts";
import {
  formatStatus,
  type GrpcLink,
  type GrpcStatus,
  grpcStatus,
  type MessageTypes,
  type Metadata,
} from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../model/flag_names.ts";
import { hideSecrets } from "../model/texts.ts";
import type { Method } from "./types.ts";

export interface CallOptions {
  readonly host: string;
  readonly token: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The first message of a stream is the answer; the rest is not wanted. */
  readonly isStream?: boolean;
  /** Names of flags in messages. */
  readonly names?: FlagNames;
  /** Called before the promise is rejected. */
  readonly onStatus?: (status: GrpcStatus) => void;
}

/** Rejects as {@link ConsulServers.call} does. */
export function callOnce<Request, Response>(
  link: GrpcLink,
  { method, request }: { readonly method: Method<Request, Response>; readonly request: Request },
  options: CallOptions,
): Promise<Response> {
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

export function metadataOf(token: string): Metadata {
  return token === "" ? {} : { "x-consul-token": token };
}

/** Reports why a message cannot be read, before the call ends because of it. */
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

/** A reason to leave the server, whatever was called. */
export function isOverload({ code }: GrpcStatus): boolean {
  return code === GRPC_STATUS.resourceExhausted;
}

/** The server does not know the token, or wants one. */
export function isUnauthenticated({ code }: GrpcStatus): boolean {
  return code === GRPC_STATUS.unauthenticated;
}

/** `what`: the method's; `unreadable`: why its message cannot be used. */
export function errorOf(
  status: GrpcStatus,
  { what, host, token, unreadable, names = PROXY_FLAGS }: {
    readonly what: string;
    readonly host: string;
    /** The call's, which its end may quote. */
    readonly token: string;
    readonly unreadable: string | undefined;
    readonly names?: FlagNames | undefined;
  },
): ProxyError {
  const cannot = `Cannot ${what}: the Consul server ${host}`;
  if (unreadable !== undefined) {
    return new ProxyError("agent_reply_invalid", `${cannot} gave no usable answer: ${unreadable}`);
  }
  const statusText = hideSecrets(formatStatus(status), [token]);
  const text = `${cannot} ended the call with ${statusText}${hintOf(status, names)}`;
  return new ProxyError(codeOf(status), text);
}

function codeOf({ code }: GrpcStatus): ErrorCode {
  switch (code) {
    case GRPC_STATUS.unavailable:
    case GRPC_STATUS.deadlineExceeded:
      return "agent_unreachable";
    case GRPC_STATUS.permissionDenied:
    case GRPC_STATUS.unauthenticated:
      return "agent_forbidden";
    case GRPC_STATUS.resourceExhausted:
      return "agent_overloaded";
    case GRPC_STATUS.notFound:
      return "agent_not_found";
    default:
      return "agent_failed";
  }
}

function hintOf({ code, details }: GrpcStatus, { token }: FlagNames): string {
  if (code === GRPC_STATUS.unimplemented) {
    return " (is -grpc-port that of a server of Consul's, not a client agent's, and the server not too old?)";
  }
  const isUnknown = code === GRPC_STATUS.unauthenticated;
  if (!isUnknown && code !== GRPC_STATUS.permissionDenied) return "";
  if (isUnknown && /ACL not found/.test(details)) return " (the servers do not know the token)";
  return /must be provided|anonymous token/.test(details)
    ? ` (give a token with ${token}, or a login with -login-auth-method)`
    : "";
}
