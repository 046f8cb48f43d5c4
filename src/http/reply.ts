/**
 * Sends the response of a failed request. gRPC clients get a gRPC status.
 *
 * @module
 */

import type { Reply } from "../base/mod.ts";
import type { ServerExchange } from "./exchange.ts";
import { encodeGrpcMessage, grpcStatusOf, isGrpc, trailersOnly } from "./grpc.ts";
import { addField, type Fields, type ResponseHead, UNKNOWN_LENGTH } from "./head.ts";

export interface ReplyOptions {
  /** Further fields. */
  readonly fields?: Fields;
  /** Where a redirect leads. */
  readonly location?: string;
  /** The rule that denied, for listeners that may say so: `x-postern-denied-by`. */
  readonly deniedBy?: string;
  /** Changes the fields last. */
  readonly change?: (fields: Fields) => void;
}

/** The text that replaces that of `idle_timed_out` when the request was complete. */
export const UNANSWERED: Reply = {
  status: 504,
  text: "stream timeout",
  flag: "SI",
  details: "stream_idle_timeout",
};

/** The text for {@link ReplyOptions.location}. */
export const REDIRECT: Reply = {
  status: 307,
  text: "",
  flag: "",
  details: "path_normalization_failed",
};

/** Sends a complete response on an exchange without one. Returns its head. */
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

/** A gRPC client follows no redirect: it gets the status of an invalid request. */
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
  // Names of services may have any character.
  if (deniedBy !== undefined) {
    addField(fields, "x-postern-denied-by", encodeGrpcMessage(deniedBy));
  }
  options.change?.(fields);
}
