/**
 * The only place where a failure becomes a response: statuses, texts, response flags and details are
 * those that Consul's users know from Envoy. gRPC clients are told in a status of their own.
 *
 * @module
 */

import type { ErrorCode } from "../base/mod.ts";
import type { ServerExchange } from "./exchange.ts";
import { encodeGrpcMessage, grpcStatusOf, isGrpc, trailersOnly } from "./grpc.ts";
import { addField, type Fields, type ResponseHead, UNKNOWN_LENGTH } from "./head.ts";

/** What Envoy's access log has at `%RESPONSE_FLAGS%`; `""`: `-`. */
export type ResponseFlag =
  | ""
  | "DC"
  | "DPE"
  | "NR"
  | "OM"
  | "RL"
  | "SI"
  | "UC"
  | "UF"
  | "UH"
  | "UO"
  | "UPE"
  | "UR"
  | "UT";

export interface Reply {
  readonly status: number;
  /** The body as text, and the message of a gRPC status. */
  readonly text: string;
  readonly flag: ResponseFlag;
  /** Envoy's `%RESPONSE_CODE_DETAILS%`. */
  readonly details: string;
  /** `true` there: a limit of ours refused, which nobody should make worse by asking again. */
  readonly says?: "x-envoy-overloaded" | "x-envoy-ratelimited";
}

/** What only the occasion knows. */
export interface ReplyOptions {
  /** That somebody else adds. */
  readonly fields?: Fields;
  /** Where a redirect leads. */
  readonly location?: string;
  /** The rule that denied, for listeners that may say so: `x-postern-denied-by`. */
  readonly deniedBy?: string;
  /** Has the last word about the fields. */
  readonly change?: (fields: Fields) => void;
}

/** No response had begun when the upstream failed. `reason` as Envoy words it. */
function broken(flag: ResponseFlag, reason: string, status = 503): Reply {
  return {
    status,
    text: `upstream connect error or disconnect/reset before headers. reset reason: ${reason}`,
    flag,
    details: `upstream_reset_before_response_started{${reason.replaceAll(" ", "_")}}`,
  };
}

const CONNECTION_FAILURE = broken("UF", "remote connection failure");
const CONNECTION_TIMEOUT = broken("UF", "connection timeout");
const DENIED: Reply = {
  status: 403,
  text: "RBAC: access denied",
  flag: "",
  details: "rbac_access_denied_matched_policy[none]",
};
const INTERNAL: Reply = { status: 500, text: "internal error", flag: "", details: "internal" };

const REPLIES: Partial<Record<ErrorCode, Reply>> = {
  overloaded: { status: 503, text: "overloaded", flag: "OM", details: "overload" },
  intention_denied: DENIED,
  // Nobody knows whether it would be allowed.
  authorize_failed: DENIED,
  plugin_denied: DENIED,
  source_denied: DENIED,
  not_ready: { status: 503, text: "not ready", flag: "", details: "not_ready" },
  request_invalid: { status: 400, text: "", flag: "", details: "path_normalization_failed" },
  request_too_large: {
    status: 413,
    text: "Payload Too Large",
    flag: "",
    details: "request_payload_too_large",
  },
  request_timed_out: {
    status: 408,
    text: "request timeout",
    flag: "",
    details: "request_overall_timeout",
  },
  route_not_found: { status: 404, text: "", flag: "NR", details: "route_not_found" },
  no_endpoint: {
    status: 503,
    text: "no healthy upstream",
    flag: "UH",
    details: "no_healthy_upstream",
  },
  limit_reached: { ...broken("UO", "overflow"), says: "x-envoy-overloaded" },
  rate_limited: {
    status: 429,
    text: "local_rate_limited",
    flag: "RL",
    details: "local_rate_limited",
    says: "x-envoy-ratelimited",
  },
  endpoint_refused: CONNECTION_FAILURE,
  endpoint_untrusted: CONNECTION_FAILURE,
  endpoint_timed_out: CONNECTION_TIMEOUT,
  local_refused: CONNECTION_FAILURE,
  local_timed_out: CONNECTION_TIMEOUT,
  refused_by_peer: CONNECTION_FAILURE,
  endpoint_reset: broken("UC", "connection termination"),
  response_reset: broken("UR", "remote reset"),
  response_invalid: broken("UPE", "protocol error", 502),
  response_timed_out: {
    status: 504,
    text: "upstream request timeout",
    flag: "UT",
    details: "upstream_response_timeout",
  },
  idle_timed_out: {
    status: 408,
    text: "stream timeout",
    flag: "SI",
    details: "stream_idle_timeout",
  },
};

/** In place of `idle_timed_out` where all of the request had come. */
export const UNANSWERED: Reply = {
  status: 504,
  text: "stream timeout",
  flag: "SI",
  details: "stream_idle_timeout",
};

/** To be given with {@link ReplyOptions.location}. */
export const REDIRECT: Reply = {
  status: 307,
  text: "",
  flag: "",
  details: "path_normalization_failed",
};

/**
 * What the client of a failed exchange is told; a code that no client should see gives a 500. Only what
 * is wrong with who asks is said in the words of `reason`.
 */
export function replyOf(code: ErrorCode, reason = ""): Reply {
  return code === "unauthenticated" ? unauthenticated(reason) : REPLIES[code] ?? INTERNAL;
}

function unauthenticated(text: string): Reply {
  const details = `jwt_authn_access_denied{${text.replaceAll(" ", "_")}}`;
  return { status: 401, text, flag: "", details };
}

/** The whole response to an exchange that has none yet; its head. */
export function sendReply(
  exchange: Pick<ServerExchange, "request" | "respond" | "send" | "end">,
  reply: Reply,
  options: ReplyOptions = {},
): ResponseHead {
  const { request } = exchange;
  const { head, body } = isGrpc(request.fields)
    ? grpcReply(reply, options)
    : plainReply(reply, options);
  const ends = body.length === 0 || request.method === "HEAD";
  exchange.respond(head, ends);
  if (!ends) {
    exchange.send(body);
    exchange.end();
  }
  return head;
}

interface WholeReply {
  readonly head: ResponseHead;
  readonly body: Uint8Array;
}

const NOTHING = new Uint8Array(0);
const encoder = new TextEncoder();

function plainReply(reply: Reply, options: ReplyOptions): WholeReply {
  const body = reply.text === "" ? NOTHING : encoder.encode(reply.text);
  const fields: Fields = [];
  if (body.length > 0) addField(fields, "content-type", "text/plain");
  addOptions(fields, reply, options);
  return { head: { status: reply.status, length: body.length, fields }, body };
}

/** A gRPC client follows no redirect: for it the request was wrong. */
function grpcReply(reply: Reply, options: ReplyOptions): WholeReply {
  const status = grpcStatusOf(reply.status === 307 ? 400 : reply.status);
  const fields = trailersOnly(status, reply.text);
  addOptions(fields, reply, { ...options, location: "" });
  return { head: { status: 200, length: UNKNOWN_LENGTH, fields }, body: NOTHING };
}

function addOptions(fields: Fields, reply: Reply, options: ReplyOptions): void {
  const { location = "", deniedBy, fields: added } = options;
  if (added) fields.push(...added);
  if (location !== "") addField(fields, "location", location);
  if (reply.says) addField(fields, reply.says, "true");
  // Names of services are the operator's text: no field of ours ends early for one.
  if (deniedBy !== undefined) {
    addField(fields, "x-postern-denied-by", encodeGrpcMessage(deniedBy));
  }
  options.change?.(fields);
}
