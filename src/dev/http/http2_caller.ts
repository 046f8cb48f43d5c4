/**
 * The same API over HTTP/2, as Consul offers it on HTTPS: every stream is a request of its own.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, Deadlines, messageOf } from "../../base/mod.ts";
import {
  addField,
  DEFAULT_HTTP_LIMITS,
  FIELD,
  type Fields,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
} from "../../http/mod.ts";
import type { Connection } from "../../net/mod.ts";
import type { DevReply, DevRequest } from "./dev_exchange.ts";

/** What Consul allows on one connection. */
const STREAMS = 250;
const MAX_BODY_BYTES = 8 * 1024 * 1024;

export interface Http2CallerOptions {
  readonly clock: Clock;
  /** Address of the caller. */
  readonly client: string;
  readonly handle: (request: DevRequest) => Promise<DevReply>;
  readonly onError: (message: string) => void;
  readonly onClose: () => void;
}

/** Takes the connection over. */
export function serveApiOverHttp2(
  connection: Connection,
  options: Http2CallerOptions,
): ServerConnection {
  const { clock, onClose } = options;
  return serveHttp2(connection, {
    limits: { ...DEFAULT_HTTP_LIMITS, concurrentStreams: STREAMS },
    clock,
    deadlines: new Deadlines(clock),
    events: {
      onRequest: (exchange) => take(exchange, options),
      onInvalid: () => {},
      onClose,
    },
  });
}

function take(exchange: ServerExchange, options: Http2CallerOptions): void {
  const chunks: Uint8Array[] = [];
  const gone: (() => void)[] = [];
  let bytes = 0;
  let isGone = false;
  const answer = async () => {
    const body = new Uint8Array(Buffer.concat(chunks));
    try {
      const reply = await options.handle(
        requestOf(exchange, {
          body,
          client: options.client,
          onGone: (fn) => isGone ? fn() : void gone.push(fn),
        }),
      );
      if (!isGone) write(exchange, reply);
    } catch (error) {
      options.onError(`${exchange.request.method} ${exchange.request.path}: ${messageOf(error)}`);
      exchange.reset("internal");
    }
  };
  exchange.events = {
    onData(chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) exchange.reset("overflow");
    },
    onEnd: () => void answer(),
    onDrain: () => {},
    onReset() {
      isGone = true;
      for (const fn of gone.splice(0)) fn();
    },
  };
  if (exchange.endsWithHead) void answer();
}

function requestOf(
  { request }: ServerExchange,
  { client, ...rest }: Pick<DevRequest, "body" | "onGone"> & { readonly client: string },
): DevRequest {
  const { method, path: target, authority, fields } = request;
  const mark = target.indexOf("?");
  const headers = new Map([["host", authority]]);
  for (let at = 0; at < fields.length; at += FIELD) {
    headers.set(fields[at] ?? "", fields[at + 1] ?? "");
  }
  return {
    method,
    path: mark < 0 ? target : target.slice(0, mark),
    query: new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1)),
    headers,
    remoteAddress: client,
    ...rest,
  };
}

function write(exchange: ServerExchange, { status, headers, body, fault }: DevReply): void {
  if (fault === "hang") return;
  const bytes = typeof body === "string" ? new Uint8Array(Buffer.from(body)) : body;
  const fields: Fields = [];
  for (const [name, value] of Object.entries(headers)) addField(fields, name.toLowerCase(), value);
  const isEmpty = bytes.length === 0 || exchange.request.method === "HEAD";
  exchange.respond({ status, length: bytes.length, fields }, isEmpty);
  if (isEmpty) return;
  if (fault === "cut") {
    exchange.send(bytes.slice(0, Math.floor(bytes.length / 2)));
    return exchange.reset("internal");
  }
  exchange.send(bytes);
  exchange.end();
}
