/**
 * Serves one exchange of our codecs by a handler in the form of `fetch`. The request's signal aborts when its
 * client has gone.
 * @module
 */

import { Buffer } from "node:buffer";
import { messageOf } from "../../base/mod.ts";
import {
  addField,
  FIELD,
  type Fields,
  type ServerExchange,
  UNKNOWN_LENGTH,
} from "../../http/mod.ts";

export type FetchHandler = (request: Request) => Response | Promise<Response>;

interface FetchOptions {
  readonly fetch: FetchHandler;
  readonly onError: (message: string) => void;
}

const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** Takes the exchange over. */
export function serveFetch(exchange: ServerExchange, { fetch, onError }: FetchOptions): void {
  const { request, endsWithHead } = exchange;
  const gone = new AbortController();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const answer = async () => {
    try {
      const response = await fetch(requestOf(exchange, Buffer.concat(chunks), gone.signal));
      if (gone.signal.aborted) await response.body?.cancel();
      else await send(exchange, response);
    } catch (error) {
      if (gone.signal.aborted) return;
      onError(`${request.method} ${request.path}: ${messageOf(error)}`);
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
    onReset: () => gone.abort(),
  };
  if (request.expectsContinue) exchange.inform({ status: 100, length: 0, fields: [] });
  if (endsWithHead) void answer();
}

function requestOf({ request }: ServerExchange, body: Uint8Array, signal: AbortSignal): Request {
  const { method, path, fields } = request;
  const headers = new Headers();
  for (let at = 0; at < fields.length; at += FIELD) {
    headers.append(fields[at] ?? "", fields[at + 1] ?? "");
  }
  const hasBody = body.length > 0 && method !== "GET" && method !== "HEAD";
  return new Request(`http://agent${path}`, {
    method,
    headers,
    signal,
    ...hasBody ? { body: body.slice() } : {},
  });
}

async function send(
  exchange: ServerExchange,
  { status, headers, body }: Response,
): Promise<void> {
  const fields: Fields = [];
  for (const [name, value] of headers) {
    if (exchange.request.version === "HTTP/2") addField(fields, name, value);
    else fields.push(name, value, spelled(name));
  }
  exchange.respond({ status, length: body ? UNKNOWN_LENGTH : 0, fields }, body === null);
  if (!body) return;
  for await (const chunk of body) exchange.send(chunk);
  exchange.end();
}

/** `x-consul-index` as `X-Consul-Index`, as Go writes names. */
function spelled(name: string): string {
  return name.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase());
}
