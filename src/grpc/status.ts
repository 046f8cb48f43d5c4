/**
 * How a gRPC call ended.
 *
 * @module
 */

import { GRPC_STATUS } from "../http/mod.ts";

export interface GrpcStatus {
  /** 0 to 16; any other code of a server counts as UNKNOWN. */
  readonly code: number;
  /** The server's text or ours: bounded, one line, for people. */
  readonly details: string;
}

const NAMES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** Longest text of a server in a log line. */
const DETAILS_LIMIT = 500;

/** A status whose text, which a server may have written, is fit for a log line. */
export function grpcStatus(code: number, text: string): GrpcStatus {
  // deno-lint-ignore no-control-regex -- a server must not forge lines
  const line = text.slice(0, DETAILS_LIMIT).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, " ");
  return { code: NAMES[code] === undefined ? GRPC_STATUS.unknown : code, details: line.trim() };
}

/** `UNAVAILABLE: connection dropped`. */
export function formatStatus({ code, details }: GrpcStatus): string {
  const name = NAMES[code] ?? "UNKNOWN";
  return details === "" || details === name ? name : `${name}: ${details}`;
}
