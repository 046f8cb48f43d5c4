/**
 * How a call of one of Consul's servers ended, as an error with a code of ours.
 *
 * @module
 */

import { type ErrorCode, ProxyError } from "../../base/mod.ts";
import { formatStatus, type GrpcStatus } from "../../grpc/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../flag_names.ts";
import { hideSecrets } from "../hide_secrets.ts";
import { GRPC_STATUS } from "../../http/mod.ts";

/** A server that is not to be asked further: what it says has nothing to do with the question. */
export function isOverload({ code }: GrpcStatus): boolean {
  return code === GRPC_STATUS.resourceExhausted;
}

/** The server does not know the token, or wants one. */
export function isUnauthenticated({ code }: GrpcStatus): boolean {
  return code === GRPC_STATUS.unauthenticated;
}

/** `what` as of a method: `have the certificate signed`; `unreadable`: why its answer cannot be used. */
export function errorOf(
  status: GrpcStatus,
  { what, host, token, unreadable, names = PROXY_FLAGS }: {
    readonly what: string;
    readonly host: string;
    /** Of the call, which its end may quote. */
    readonly token: string;
    readonly unreadable: string | undefined;
    readonly names?: FlagNames | undefined;
  },
): ProxyError {
  const cannot = `Cannot ${what}: the Consul server ${host}`;
  return unreadable === undefined
    ? new ProxyError(
      codeOf(status),
      `${cannot} ended the call with ${hideSecrets(formatStatus(status), [token])}` +
        hintOf(status, names),
    )
    : new ProxyError("agent_reply_invalid", `${cannot} gave no usable answer: ${unreadable}`);
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
