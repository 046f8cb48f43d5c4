/** The values of Envoy's command operators, one row each; `undefined`: missing. @module */

import { createHash } from "node:crypto";
import { fieldOf, type Fields, UNKNOWN_LENGTH } from "../head.ts";
import { type ExchangeRecord, flagsText, NOT_REACHED } from "./exchange_record.ts";
import { timeFormat } from "./start_time.ts";

export type Value = string | number | undefined;
export type ValueReader = (record: ExchangeRecord) => Value;

/** Facts that are the same for all lines of this process. */
export interface ProcessFacts {
  readonly hostname: string;
  /** Wall clock in ms. */
  now(): number;
}

/** `given`: the text in the operator's parentheses, `""` without any; `fault`: why it is invalid. */
type Row = (given: string, around: ProcessFacts) => ValueReader | { readonly fault: string };

export const OPERATORS: Readonly<Record<string, Row>> = {
  START_TIME: (format) => time(format, (record) => record.startMs),
  EMIT_TIME: (format, { now }) => time(format, now),
  REQ: headers(requestField),
  RESP: headers(responseField),
  TRAILER: headers(({ responseTrailers }, name) => fieldIn(responseTrailers, name)),
  QUERY_PARAM: (name) =>
    name === ""
      ? { fault: "needs a name" }
      : ({ request }) => queryParam(request?.path ?? "", name),
  PATH: path,
  PROTOCOL: plain(({ request }) => request?.version),
  RESPONSE_CODE: plain(({ status }) => status),
  RESPONSE_CODE_DETAILS: plain(({ details }) => details),
  CONNECTION_TERMINATION_DETAILS: plain(({ connectionDetails }) => connectionDetails),
  RESPONSE_FLAGS: plain(({ flags }) => flagsText(flags) || "-"),
  RESPONSE_FLAGS_LONG: plain(({ flags }) => flagsText(flags, "long") || "-"),
  BYTES_RECEIVED: plain(({ receivedBytes }) => receivedBytes),
  BYTES_SENT: plain(({ sentBytes }) => sentBytes),
  DURATION: plain(({ startedAt, endAt }) => between(startedAt, endAt)),
  REQUEST_DURATION: plain(({ startedAt, requestEndAt }) => between(startedAt, requestEndAt)),
  RESPONSE_DURATION: plain(({ startedAt, upstreamFirstByteAt }) =>
    between(startedAt, upstreamFirstByteAt)
  ),
  RESPONSE_TX_DURATION: plain(({ upstreamFirstByteAt, endAt }) =>
    between(upstreamFirstByteAt, endAt)
  ),
  COMMON_DURATION: commonDuration,
  UPSTREAM_HOST: plain(({ upstreamHost }) => upstreamHost),
  ...address("UPSTREAM_REMOTE", ({ upstreamHost }) => upstreamHost),
  ...address("UPSTREAM_LOCAL", ({ upstream }) => upstream?.local),
  ...address("DOWNSTREAM_REMOTE", ({ downstream }) => downstream.remote),
  ...address("DOWNSTREAM_DIRECT_REMOTE", ({ downstream }) => downstream.remote),
  ...address("DOWNSTREAM_LOCAL", ({ downstream }) => downstream.local),
  UPSTREAM_CLUSTER: plain(({ upstreamCluster }) => upstreamCluster),
  UPSTREAM_CHOSEN_BY: plain(({ chosenBy }) => chosenBy),
  UPSTREAM_REQUEST_ATTEMPT_COUNT: plain(({ attempts }) => attempts),
  UPSTREAM_TRANSPORT_FAILURE_REASON: plain(({ upstreamFailure }) => upstreamFailure),
  DOWNSTREAM_PEER_URI_SAN: plain(({ downstream }) => downstream.peer?.uri),
  DOWNSTREAM_PEER_SERIAL: plain(({ downstream }) => downstream.peer?.serial.replaceAll(":", "")),
  DOWNSTREAM_PEER_FINGERPRINT_256: plain(({ downstream }) => fingerprint(downstream.peer?.leaf)),
  DOWNSTREAM_LOCAL_URI_SAN: plain(({ downstream }) => downstream.localUri),
  DOWNSTREAM_TLS_VERSION: plain(({ downstream }) => downstream.tlsVersion),
  REQUESTED_SERVER_NAME: plain(({ downstream }) => downstream.requestedServerName),
  ROUTE_NAME: plain(({ route }) => route),
  CONNECTION_ID: plain(({ downstream }) => downstream.id),
  GRPC_STATUS: grpcStatus,
  GRPC_STATUS_NUMBER: plain(grpcNumber),
  HOSTNAME: (given, { hostname }) => plain(() => hostname)(given),
};

/** An operator without parameters. */
function plain(read: ValueReader): (given: string) => ValueReader | { readonly fault: string } {
  return (given) => given === "" ? read : { fault: `takes no "${given}"` };
}

function time(format: string, msOf: (record: ExchangeRecord) => number): ReturnType<Row> {
  const text = timeFormat(format);
  if (typeof text !== "function") return { fault: `does not know "${text.unknown}"` };
  return (record) => text(msOf(record));
}

/** `NAME` or `NAME?OTHER`: the other if the first is missing. */
function headers(
  read: (record: ExchangeRecord, name: string) => string | undefined,
): (given: string) => ReturnType<Row> {
  return (given) => {
    const [name = "", other, ...more] = given.toLowerCase().split("?");
    if (name === "" || other === "" || more.length > 0) {
      return { fault: "needs the name of a header, or two with ? between them" };
    }
    if (other === undefined) return (record) => read(record, name);
    return (record) => read(record, name) ?? read(record, other);
  };
}

function requestField(record: ExchangeRecord, name: string): string | undefined {
  const { request, originalPath } = record;
  if (!request) return undefined;
  switch (name) {
    case ":method":
      return request.method;
    case ":path":
      return request.path || undefined;
    case ":authority":
    case "host":
      return request.authority || undefined;
    case ":scheme":
      return request.scheme || undefined;
    case "upgrade":
      return request.upgrade || undefined;
    case "content-length":
      return request.length === UNKNOWN_LENGTH ? undefined : String(request.length);
    case "x-envoy-original-path":
      return fieldOf(request.fields, name) ?? (originalPath || undefined);
    default:
      return fieldOf(request.fields, name);
  }
}

function responseField(record: ExchangeRecord, name: string): string | undefined {
  const { response, requestEndAt, upstreamFirstByteAt } = record;
  const text = fieldIn(response?.fields, name);
  if (text !== undefined) return text;
  switch (name) {
    case ":status":
      return response && String(response.status);
    // Envoy puts it into responses; here it is logged without being in them.
    case "x-envoy-upstream-service-time":
      return between(requestEndAt, upstreamFirstByteAt)?.toString();
    case "content-length":
      return response && response.length !== UNKNOWN_LENGTH ? String(response.length) : undefined;
    default:
      return undefined;
  }
}

const fieldIn = (fields: Fields | undefined, name: string) => fields && fieldOf(fields, name);

/** `PATH(WQ|NQ:ORIG|PATH|ORIG_OR_PATH)`: with the query or without it, original or rewritten. */
function path(given: string): ReturnType<Row> {
  const [query = "", which = ""] = given.split(":");
  const isKnown = ["", "WQ", "NQ"].includes(query) &&
    ["", "PATH", "ORIG", "ORIG_OR_PATH"].includes(which) && given.split(":").length <= 2;
  if (!isKnown) return { fault: `does not know "${given}"` };
  return ({ request, originalPath }) => {
    const path = request?.path ?? "";
    const text = which === "ORIG"
      ? originalPath
      : which === "ORIG_OR_PATH"
      ? originalPath || path
      : path;
    const end = query === "NQ" ? text.indexOf("?") : -1;
    return end < 0 ? text : text.slice(0, end);
  };
}

function queryParam(path: string, name: string): string | undefined {
  const query = path.indexOf("?");
  if (query < 0) return undefined;
  for (const pair of path.slice(query + 1).split("&")) {
    const equals = pair.indexOf("=");
    if ((equals < 0 ? pair : pair.slice(0, equals)) === name) {
      return equals < 0 ? "" : pair.slice(equals + 1);
    }
  }
  return undefined;
}

/** Whole milliseconds, as Envoy has them. */
function between(from: number, to: number): number | undefined {
  return from === NOT_REACHED || to === NOT_REACHED
    ? undefined
    : Math.max(Math.floor(to - from), 0);
}

const POINTS: Readonly<Record<string, (record: ExchangeRecord) => number>> = {
  DS_RX_BEG: ({ startedAt }) => startedAt,
  DS_RX_END: ({ requestEndAt }) => requestEndAt,
  US_TX_BEG: ({ upstreamStartAt }) => upstreamStartAt,
  US_RX_BEG: ({ upstreamFirstByteAt }) => upstreamFirstByteAt,
  DS_TX_END: ({ endAt }) => endAt,
};
const PER_MS: Readonly<Record<string, number>> = { ms: 1, us: 1_000, ns: 1_000_000 };

/** `COMMON_DURATION(DS_RX_BEG:US_RX_BEG:us)`. */
function commonDuration(given: string): ReturnType<Row> {
  const [first = "", last = "", unit = "", ...more] = given.split(":");
  const from = Object.hasOwn(POINTS, first) ? POINTS[first] : undefined;
  const to = Object.hasOwn(POINTS, last) ? POINTS[last] : undefined;
  const factor = Object.hasOwn(PER_MS, unit) ? PER_MS[unit] : undefined;
  if (!from || !to || !factor || more.length > 0) {
    const points = Object.keys(POINTS).join(", ");
    return { fault: `needs FROM:TO:UNIT with points of ${points} and a unit of ms, us, ns` };
  }
  return (record) => {
    const begin = from(record);
    const end = to(record);
    if (begin === NOT_REACHED || end === NOT_REACHED) return undefined;
    return Math.max(Math.floor((end - begin) * factor), 0);
  };
}

/** The three operators of one address. */
function address(
  name: string,
  read: (record: ExchangeRecord) => string | undefined,
): Readonly<Record<string, Row>> {
  return {
    [`${name}_ADDRESS`]: plain(read),
    [`${name}_ADDRESS_WITHOUT_PORT`]: plain((record) => {
      const whole = read(record);
      const colon = whole?.lastIndexOf(":") ?? -1;
      return colon < 0 ? whole : whole?.slice(0, colon).replace(/^\[|\]$/g, "");
    }),
    [`${name}_PORT`]: plain((record) => {
      const whole = read(record);
      const colon = whole?.lastIndexOf(":") ?? -1;
      const port = colon < 0 ? NaN : Number(whole?.slice(colon + 1));
      return Number.isInteger(port) ? port : undefined;
    }),
  };
}

/** All exchanges of a connection share the certificate, and its fingerprint is cached. */
const fingerprints = new WeakMap<Uint8Array, string>();

function fingerprint(leaf: Uint8Array | undefined): string | undefined {
  if (!leaf) return undefined;
  let text = fingerprints.get(leaf);
  if (text === undefined) {
    text = createHash("sha256").update(leaf).digest("hex");
    fingerprints.set(leaf, text);
  }
  return text;
}

/** As in `GRPC_STATUS`, but spelled like Envoy's. */
const GRPC_STATUSES =
  ("OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists " +
    "PermissionDenied ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal " +
    "Unavailable DataLoss Unauthenticated").split(" ");

/** Reads the trailers, or the head of a response without a body. */
function grpcNumber({ response, responseTrailers }: ExchangeRecord): number | undefined {
  const text = fieldIn(responseTrailers, "grpc-status") ?? fieldIn(response?.fields, "grpc-status");
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function grpcStatus(given: string): ReturnType<Row> {
  switch (given) {
    case "NUMBER":
      return grpcNumber;
    case "":
    case "CAMEL_STRING":
      return (record) => {
        const number = grpcNumber(record);
        return number === undefined ? undefined : GRPC_STATUSES[number] ?? number;
      };
    case "SNAKE_STRING":
      return (record) => {
        const number = grpcNumber(record);
        const name = GRPC_STATUSES[number ?? -1];
        return name?.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase() ?? number;
      };
    default:
      return { fault: `does not know "${given}"; it takes CAMEL_STRING, SNAKE_STRING or NUMBER` };
  }
}
