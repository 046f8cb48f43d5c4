/**
 * A small HTTP/1.1 server on plain sockets. The agent needs what a server library hides: a reply on a
 * connection that has asked nothing, header names exactly as Consul writes them, bodies that end too
 * early, replies that never come, and the same on every runtime. Routing is left to the caller.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, messageOf } from "../../base/mod.ts";
import { ANOTHER_ORIGIN, refuseWebPage } from "../../http/mod.ts";
import type { Connection, Listener } from "../../net/mod.ts";
import type { Acceptor, DevReply, DevRequest } from "./dev_exchange.ts";
import { serveApiOverHttp2 } from "./http2_caller.ts";
import { type Head, headLength, MAX_HEAD_BYTES, parseHead, readChunked } from "./http_parse.ts";

const MAX_BODY_BYTES = 8 * 1024 * 1024;

export interface HttpServerOptions {
  readonly engine: Acceptor;
  readonly clock: Clock;
  readonly host: string;
  readonly handle: (request: DevRequest) => Promise<DevReply>;
  readonly onError: (message: string) => void;
  /** Over TLS a name is proven by the certificate, which no page elsewhere has. */
  readonly isSecure?: boolean;
}

/** What Consul grants one address. */
const MAX_CONNECTIONS_PER_CLIENT = 200;
const TOO_MANY =
  "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
const TOO_MANY_REPLY = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\n" +
  `Content-Length: ${TOO_MANY.length}\r\nConnection: close\r\n\r\n${TOO_MANY}`;

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  413: "Request Entity Too Large",
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** Listens on one address; can be stopped and started again on the same port. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #open = new Set<Connection>();
  readonly #refused = new Set<Connection>();
  readonly #perClient = new Map<string, number>();
  #listener: Listener | undefined;
  #port = 0;

  constructor(options: HttpServerOptions) {
    const handle = async (request: DevRequest) =>
      refusePage(request, options) ?? await options.handle(request);
    this.#options = { ...options, handle };
  }

  get port(): number {
    return this.#port;
  }

  /** Open connections, refused ones not counted. */
  get connections(): number {
    return this.#open.size;
  }

  async start(port: number): Promise<void> {
    const { engine, host } = this.#options;
    const address = { kind: "tcp", host, port } as const;
    const listener = await engine.listen(
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
    for (const connection of [...this.#open, ...this.#refused]) connection.reset();
  }

  #accept(connection: Connection, protocol = ""): void {
    const client = connection.remote.slice(0, connection.remote.lastIndexOf(":"));
    const count = this.#perClient.get(client) ?? 0;
    if (count >= MAX_CONNECTIONS_PER_CLIENT) return this.#refuse(connection);
    this.#perClient.set(client, count + 1);
    this.#open.add(connection);
    const onClose = () => {
      this.#open.delete(connection);
      const left = (this.#perClient.get(client) ?? 1) - 1;
      if (left > 0) this.#perClient.set(client, left);
      else this.#perClient.delete(client);
    };
    if (protocol === "h2") {
      serveApiOverHttp2(connection, { ...this.#options, client, onClose });
      return;
    }
    const caller = new Caller(connection, client, this.#options);
    connection.events = {
      onData: (chunk) => caller.push(chunk),
      onEnd: () => caller.ended(),
      onDrain: () => {},
      onClose: () => {
        onClose();
        caller.gone();
      },
    };
  }

  /** Nothing is read before the refusal: the caller may not have asked anything yet. */
  #refuse(connection: Connection): void {
    this.#refused.add(connection);
    connection.events = {
      onData: () => {},
      onEnd: () => connection.close(),
      onDrain: () => {},
      onClose: () => void this.#refused.delete(connection),
    };
    connection.write(Buffer.from(TOO_MANY_REPLY));
    connection.end();
  }
}

/** What is here has keys of leaves in it, which a page in the browser of a developer must not read. */
function refusePage({ headers }: DevRequest, options: HttpServerOptions): DevReply | undefined {
  const { host, isSecure = false } = options;
  const origin = headers.get("origin");
  const site = headers.get("sec-fetch-site") ?? "none";
  const own = { boundHost: host, server: "embedded Consul", names: namesFor(headers, host) };
  const reason = isSecure
    ? origin === undefined ? undefined : ANOTHER_ORIGIN
    : refuseWebPage({ host: headers.get("host") ?? "localhost", origin }, own);
  const refused = reason ??
    (site === "none" || site === "same-origin" ? undefined : ANOTHER_ORIGIN);
  if (refused === undefined) return undefined;
  return {
    status: 403,
    headers: { "Content-Type": "text/plain; charset=utf-8" },
    body: `Cannot answer: ${refused}\n`,
  };
}

/** Names of containers and of this network, which nobody elsewhere can have a page under. */
const LOCAL_NAME = /^(?:[a-z0-9_-]+|[a-z0-9_.-]+\.(?:internal|local|localhost|test))$/;

/** The name that is asked for, where others than this machine are to ask and it is one of theirs. */
function namesFor(headers: ReadonlyMap<string, string>, boundHost: string): readonly string[] {
  if (LOOPBACK.test(boundHost)) return [];
  const name = (headers.get("host") ?? "").toLowerCase().replace(/:\d{1,5}$/, "");
  return LOCAL_NAME.test(name) ? [name] : [];
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/;

/** One caller: requests are answered one after the other, in order. */
class Caller {
  readonly #connection: Connection;
  readonly #client: string;
  readonly #options: HttpServerOptions;
  #pending: Uint8Array = new Uint8Array(0);
  #busy = false;
  #gone: (() => void)[] = [];
  #isGone = false;
  #hasEnded = false;

  constructor(connection: Connection, client: string, options: HttpServerOptions) {
    this.#connection = connection;
    this.#client = client;
    this.#options = options;
  }

  push(chunk: Uint8Array): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    if (this.#pending.length > MAX_BODY_BYTES + MAX_HEAD_BYTES) return this.#refuse(413);
    if (!this.#busy) this.#next();
  }

  /** The caller sends no more: what waits is answered now, then it ends. */
  ended(): void {
    this.#hasEnded = true;
    this.#release();
    if (!this.#busy) this.#connection.close();
  }

  gone(): void {
    this.#isGone = true;
    this.#release();
  }

  #release(): void {
    const callbacks = this.#gone;
    this.#gone = [];
    for (const fn of callbacks) fn();
  }

  #refuse(status: number): void {
    const line = `HTTP/1.1 ${status} ${REASONS[status] ?? ""}`;
    this.#connection.write(Buffer.from(`${line}\r\nConnection: close\r\n\r\n`));
    this.#connection.end();
  }

  #next(): void {
    const end = headLength(this.#pending);
    if (end < 0) {
      if (this.#pending.length > MAX_HEAD_BYTES) this.#refuse(400);
      return;
    }
    const head = parseHead(this.#pending.subarray(0, end));
    if (!head) return this.#refuse(400);
    let body: Uint8Array;
    let used: number;
    if (head.chunked) {
      const read = readChunked(this.#pending.subarray(end));
      if (read === "more") return;
      if (read === "bad") return this.#refuse(400);
      body = read.body;
      used = end + read.used;
    } else {
      if (head.contentLength > MAX_BODY_BYTES) return this.#refuse(413);
      used = end + head.contentLength;
      if (this.#pending.length < used) return;
      body = this.#pending.subarray(end, used);
    }
    this.#pending = this.#pending.subarray(used);
    this.#busy = true;
    this.#answer(head, body).catch((error) => {
      this.#options.onError(`${head.method} ${head.target}: ${messageOf(error)}`);
      this.#refuse(500);
    });
  }

  async #answer(head: Head, body: Uint8Array): Promise<void> {
    const mark = head.target.indexOf("?");
    const reply = await this.#options.handle({
      method: head.method,
      path: mark < 0 ? head.target : head.target.slice(0, mark),
      query: new URLSearchParams(mark < 0 ? "" : head.target.slice(mark + 1)),
      headers: head.headers,
      body,
      remoteAddress: this.#client,
      onGone: (fn) => this.#isGone || this.#hasEnded ? fn() : void this.#gone.push(fn),
    });
    this.#gone = [];
    if (this.#isGone || reply.fault === "hang") return;
    this.#write(reply, head);
    this.#busy = false;
    if (this.#pending.length > 0) this.#next();
  }

  #write(reply: DevReply, head: Head): void {
    const body = typeof reply.body === "string" ? Buffer.from(reply.body) : reply.body;
    let text = `HTTP/1.1 ${reply.status} ${REASONS[reply.status] ?? "Status"}\r\n`;
    for (const [name, value] of Object.entries(reply.headers)) text += `${name}: ${value}\r\n`;
    text += `Content-Length: ${body.length}\r\n`;
    if (!head.keepAlive) text += "Connection: close\r\n";
    const start = Buffer.from(text + "\r\n");
    const isCut = reply.fault === "cut";
    const sent = head.method === "HEAD"
      ? new Uint8Array(0)
      : isCut
      ? body.subarray(0, Math.floor(body.length / 2))
      : body;
    this.#connection.write(Buffer.concat([start, sent]));
    if (!head.keepAlive || isCut || this.#hasEnded) this.#connection.end();
  }
}
