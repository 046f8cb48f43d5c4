/** Serves an HTTP handler in the form of `fetch` on one address, over our codecs. @module */

import { Buffer } from "node:buffer";
import { type Clock, Deadlines, messageOf } from "../../base/mod.ts";
import {
  addField,
  ANOTHER_ORIGIN,
  DEFAULT_HTTP_LIMITS,
  FIELD,
  fieldOf,
  type Fields,
  refuseWebPage,
  type RequestHead,
  serveHttp1,
  serveHttp2,
  type ServerExchange,
  UNKNOWN_LENGTH,
} from "../../http/mod.ts";
import type { Connection, Listener, ListenOptions } from "../../net/mod.ts";

/** Accepts connections: an engine, or something in front of one. */
export interface Acceptor {
  /** `protocol`: what TLS agreed on by ALPN; `""` and absent: nothing. */
  listen(
    options: ListenOptions,
    onConnection: (connection: Connection, protocol?: string) => void,
  ): Promise<Listener>;
}

interface ApiListenerOptions {
  readonly acceptor: Acceptor;
  readonly clock: Clock;
  readonly host: string;
  readonly fetch: FetchHandler;
  readonly onError: (message: string) => void;
  /** The reason to refuse a request with 403; absent: no request is refused. */
  readonly whyRefused?: (request: RequestHead) => string | undefined;
}

/** Connections that Consul grants to one address (`limits.http_max_conns_per_client`). */
const MAX_CONNECTIONS_PER_CLIENT = 200;
/** Streams that Consul allows on one connection of HTTP/2. */
const MAX_STREAMS = 250;
const TOO_MANY =
  "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
/** Sent before the first request, as Consul does. */
const TOO_MANY_REPLY = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\n" +
  `Content-Length: ${TOO_MANY.length}\r\nConnection: close\r\n\r\n${TOO_MANY}`;

export class ApiListener {
  readonly #options: ApiListenerOptions;
  readonly #deadlines: Deadlines;
  /** The client's address of each connection; refused connections have none. */
  readonly #open = new Map<Connection, string | undefined>();
  #listener: Listener | undefined;
  #port = 0;

  constructor(options: ApiListenerOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock);
  }

  get port(): number {
    return this.#port;
  }

  /** Open connections, without refused ones. */
  get connections(): number {
    return [...this.#open.values()].filter((client) => client !== undefined).length;
  }

  async start(port: number): Promise<void> {
    const { acceptor, host } = this.#options;
    const address = { kind: "tcp", host, port } as const;
    const listener = await acceptor.listen(
      { address, reusePort: false },
      (connection, protocol) => this.#accept(connection, protocol),
    );
    this.#listener = listener;
    if (listener.address.kind === "tcp") this.#port = listener.address.port;
  }

  /** Ends the listener and every connection at once, as a killed agent does. */
  stop(): void {
    this.#listener?.close();
    this.#listener = undefined;
    for (const connection of [...this.#open.keys()]) connection.reset();
  }

  #accept(connection: Connection, protocol = ""): void {
    const client = connection.remote.slice(0, connection.remote.lastIndexOf(":"));
    const others = [...this.#open.values()].filter((other) => other === client);
    if (others.length >= MAX_CONNECTIONS_PER_CLIENT) return this.#refuse(connection);
    this.#open.set(connection, client);
    const options = {
      limits: { ...DEFAULT_HTTP_LIMITS, concurrentStreams: MAX_STREAMS },
      clock: this.#options.clock,
      deadlines: this.#deadlines,
      events: {
        onRequest: (exchange: ServerExchange) => this.#serve(exchange),
        onInvalid: () => {},
        onClose: () => void this.#open.delete(connection),
      },
    };
    if (protocol === "h2") serveHttp2(connection, options);
    else serveHttp1(connection, options);
  }

  #serve(exchange: ServerExchange): void {
    const { fetch, onError, whyRefused } = this.#options;
    const reason = whyRefused?.(exchange.request);
    const refuse = () => new Response(`Cannot answer: ${reason}\n`, { status: 403 });
    serveFetch(exchange, { fetch: reason === undefined ? fetch : refuse, onError });
  }

  #refuse(connection: Connection): void {
    this.#open.set(connection, undefined);
    connection.events = {
      onData: () => {},
      onEnd: () => connection.close(),
      onDrain: () => {},
      onClose: () => void this.#open.delete(connection),
    };
    connection.write(Buffer.from(TOO_MANY_REPLY));
    connection.end();
  }
}

/**
 * Refuses web pages of other origins: the API has keys that a page in a developer's browser must not read.
 * `isSecure`: over TLS the certificate proves the name, which such a page does not have.
 */
export function refusePages(
  boundHost: string,
  { isSecure }: { readonly isSecure: boolean },
): (request: RequestHead) => string | undefined {
  return ({ authority, fields }) => {
    const host = authority || "localhost";
    const origin = fieldOf(fields, "origin");
    const names = LOOPBACK.test(boundHost) ? [] : localNames(host);
    const reason = isSecure
      ? origin && ANOTHER_ORIGIN
      : refuseWebPage({ host, origin }, { boundHost, server: "embedded Consul", names });
    const site = fieldOf(fields, "sec-fetch-site") ?? "none";
    return reason ?? (["none", "same-origin"].includes(site) ? undefined : ANOTHER_ORIGIN);
  };
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/;
/** Names of containers and of the local network, which no outside page can have. */
const LOCAL_NAME = /^(?:[a-z0-9_-]+|[a-z0-9_.-]+\.(?:internal|local|localhost|test))$/;

function localNames(host: string): readonly string[] {
  const name = host.toLowerCase().replace(/:\d{1,5}$/, "");
  return LOCAL_NAME.test(name) ? [name] : [];
}

type FetchHandler = (request: Request) => Response | Promise<Response>;

const MAX_BODY_BYTES = 8 * 1024 * 1024;

function serveFetch(
  exchange: ServerExchange,
  { fetch, onError }: Pick<ApiListenerOptions, "fetch" | "onError">,
): void {
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

async function send(exchange: ServerExchange, { status, headers, body }: Response): Promise<void> {
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
