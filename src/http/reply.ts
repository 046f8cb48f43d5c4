/** Sends the response of a failed request. gRPC clients get a gRPC status. @module */

import type { Reply } from "../base/mod.ts";
import type { ServerExchange } from "./exchange.ts";
import { addDenial, type Denial } from "./denial.ts";
import { grpcStatusOf, isGrpc, trailersOnly } from "./grpc.ts";
import { addField, type Fields, type ResponseHead, UNKNOWN_LENGTH } from "./head.ts";

export interface ReplyOptions {
  readonly fields?: Fields;
  readonly location?: string;
  /** For listeners that tell it: `x-postern-denied-by`. */
  readonly denial?: Denial | undefined;
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
  const fields: Fields = [];
  let head: ResponseHead;
  let body = NOTHING;
  if (isGrpc(request.fields)) {
    // A gRPC client follows no redirect: it gets the status of an invalid request.
    const status = grpcStatusOf(reply.status === 307 ? 400 : reply.status);
    fields.push(...trailersOnly(status, reply.text));
    head = { status: 200, length: UNKNOWN_LENGTH, fields };
    addOptions(fields, reply, { ...options, location: "" });
  } else {
    if (reply.text !== "") {
      body = encoder.encode(reply.text);
      addField(fields, "content-type", "text/plain");
    }
    head = { status: reply.status, length: body.length, fields };
    addOptions(fields, reply, options);
  }
  const ends = body.length === 0 || request.method === "HEAD";
  exchange.respond(head, ends);
  if (!ends) {
    exchange.send(body);
    exchange.end();
  }
  return head;
}

const NOTHING: Uint8Array = new Uint8Array(0);
const encoder = new TextEncoder();

function addOptions(fields: Fields, reply: Reply, options: ReplyOptions): void {
  const { location = "", denial, fields: added } = options;
  if (added) fields.push(...added);
  if (location !== "") addField(fields, "location", location);
  if (reply.says) addField(fields, reply.says, "true");
  if (denial) addDenial(fields, denial);
  options.change?.(fields);
}
