/** The gRPC rules that HTTP needs (the gRPC HTTP/2 protocol, and Envoy's mapping). @module */

import { addField, fieldOf, type Fields } from "./head.ts";

export const GRPC_STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;

const CONTENT_TYPE = "application/grpc";

/** `application/grpc`, with or without a message format; gRPC-Web is a different protocol. */
export function isGrpc(fields: Fields): boolean {
  const type = fieldOf(fields, "content-type");
  if (type === undefined || !type.startsWith(CONTENT_TYPE)) return false;
  if (type.length === CONTENT_TYPE.length) return true;
  const next = type[CONTENT_TYPE.length];
  return next === "+" || next === ";";
}

const GRPC_STATUSES: Readonly<Record<number, number>> = {
  400: GRPC_STATUS.internal,
  401: GRPC_STATUS.unauthenticated,
  403: GRPC_STATUS.permissionDenied,
  404: GRPC_STATUS.unimplemented,
  429: GRPC_STATUS.unavailable,
  502: GRPC_STATUS.unavailable,
  503: GRPC_STATUS.unavailable,
  504: GRPC_STATUS.unavailable,
};

/** The gRPC status that a gRPC client gets where another client gets `httpStatus`. */
export function grpcStatusOf(httpStatus: number): number {
  return GRPC_STATUSES[httpStatus] ?? GRPC_STATUS.unknown;
}

// deno-fmt-ignore -- one line shows the order
const HTTP_STATUSES = [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];

/** The HTTP status that corresponds to a gRPC status: for passive health and counters. */
export function httpStatusOf(grpcStatus: number): number {
  return HTTP_STATUSES[grpcStatus] ?? 500;
}

/** The `grpc-status`; `undefined`: it is missing; no number: {@link GRPC_STATUS.unknown}. */
export function readGrpcStatus(fields: Fields): number | undefined {
  const text = fieldOf(fields, "grpc-status");
  if (text === undefined) return undefined;
  const status = text.length > 0 && text.length <= 2 ? Number(text) : NaN;
  return Number.isInteger(status) && status >= 0 ? status : GRPC_STATUS.unknown;
}

/** Fields of a response that consists of its trailers only (HTTP status 200, no body). */
export function trailersOnly(grpcStatus: number, message: string): Fields {
  const fields: Fields = [];
  addField(fields, "content-type", CONTENT_TYPE);
  addField(fields, "grpc-status", String(grpcStatus));
  if (message !== "") addField(fields, "grpc-message", encodeGrpcMessage(message));
  return fields;
}

/** UTF-8, with `%XX` for `%` and for every octet outside printable ASCII. */
export function encodeGrpcMessage(message: string): string {
  let encoded = "";
  for (const byte of new TextEncoder().encode(message)) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x25;
    encoded += plain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

/** Decodes `grpc-message`. Octets that are not UTF-8 become U+FFFD; a `%` without two digits stays. */
export function decodeGrpcMessage(encoded: string): string {
  const octets: number[] = [];
  for (let at = 0; at < encoded.length; at++) {
    const code = /^%[0-9A-Fa-f]{2}$/.test(encoded.slice(at, at + 3));
    octets.push(code ? parseInt(encoded.slice(at + 1, at + 3), 16) : encoded.charCodeAt(at) & 0xff);
    if (code) at += 2;
  }
  return new TextDecoder().decode(Uint8Array.from(octets));
}
