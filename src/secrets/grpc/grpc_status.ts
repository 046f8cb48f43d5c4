/**
 * How a gRPC call ended. Only the codes that something here looks at have names.
 *
 * @module
 */

export interface GrpcStatus {
  /** 0 to 16; anything else a server sends counts as UNKNOWN. */
  readonly code: number;
  /** The server's words or the library's: bounded, one line, for people. */
  readonly details: string;
}

export const GRPC_OK = 0;
export const GRPC_CANCELLED = 1;
export const GRPC_UNKNOWN = 2;
export const GRPC_INVALID_ARGUMENT = 3;
export const GRPC_DEADLINE_EXCEEDED = 4;
export const GRPC_PERMISSION_DENIED = 7;
export const GRPC_RESOURCE_EXHAUSTED = 8;
export const GRPC_UNIMPLEMENTED = 12;
export const GRPC_INTERNAL = 13;
export const GRPC_UNAVAILABLE = 14;

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

/** Longest text of a server that gets into a log line. */
const DETAILS_LIMIT = 500;

/** What the library adds to why it could not connect: the time would make every failure a new one. */
const NOISE: readonly RegExp[] = [
  /^No connection established\. Last error: /,
  /^(?:Type)?Error(?: \[[A-Z_]+\])?: /,
  /\.? Resolution note: *$/,
  / \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/,
];

/** In words that say what to look at. */
const PLAIN: readonly (readonly [RegExp, string])[] = [
  [
    /^Failed to connect$/,
    "it closed the connection where HTTP/2 begins: is it a gRPC server, with TLS or without as " +
    "configured?",
  ],
  [/^.*(?:WRONG_VERSION_NUMBER|wrong version number).*$/, "the port does not speak TLS"],
];

/** A status of these parts, with what a stranger wrote made fit for a log line. */
export function grpcStatus(code: number, text: string): GrpcStatus {
  const said = NOISE.reduce((rest, noise) => rest.replace(noise, ""), text);
  const details = PLAIN.find(([pattern]) => pattern.test(said))?.[1] ?? said;
  // deno-lint-ignore no-control-regex -- a server must not forge lines
  const line = details.slice(0, DETAILS_LIMIT).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, " ");
  return { code: NAMES[code] === undefined ? GRPC_UNKNOWN : code, details: line.trim() };
}

/** `UNAVAILABLE: connection dropped`. */
export function formatStatus({ code, details }: GrpcStatus): string {
  const name = NAMES[code] ?? "UNKNOWN";
  return details === "" || details === name ? name : `${name}: ${details}`;
}
