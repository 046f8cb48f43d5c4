/** HTTP servers beside the data path, bounded in headers, time and connections. @module */

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type Clock, formatAddress, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import { refuseWebPage } from "../../http/mod.ts";
import { listenInstead, serverSocketAt } from "../../net/mod.ts";
import { writeStream } from "./event_stream.ts";
import { machineNames } from "./guard.ts";

export interface Listening {
  readonly address: { readonly kind: "tcp"; readonly host: string; readonly port: number };
  /** Copies of its socket, for another process. */
  copies(): readonly number[];
  /** Another process listens at this address: requests under way are answered, no others are taken. */
  leave(): void;
  /** Ends at once, open requests included. */
  close(): Promise<void>;
}

export interface ServedRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** Address at the other end; `""`: unknown. */
  readonly peer: string;
  /** The client has shown a certificate of the CA; always true without TLS. */
  readonly isAuthorized: boolean;
}

interface ServedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A stream ends when the client leaves or the server closes. */
  readonly body: string | Uint8Array | ReadableStream<Uint8Array>;
}

/** PEM texts that were checked before. Clients must show a certificate that one of `caPem` has signed. */
export interface SmallServerTls {
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
}

interface HttpServerOptions {
  readonly host: string;
  readonly port: number;
  /** A socket that listens at this address already, from another process. It is taken. */
  readonly descriptor?: number | undefined;
  /** In the log: `admin server`. */
  readonly name: string;
  readonly clock: Clock;
  readonly tls?: SmallServerTls | undefined;
  /** A probe may use the connections that are reserved for probes. */
  isProbe?(target: string): boolean;
  answer(request: ServedRequest): Promise<ServedAnswer>;
}

const LIMITS = {
  maxHeaderSize: 8_192,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
} as const;

const TOO_MANY = refusal(503, "Cannot answer now: too many requests are being answered\n");
const TOO_MANY_STREAMS = refusal(503, "Cannot answer now: too many clients follow this proxy\n");
/** A method or target that no web server has. */
const MALFORMED = refusal(400, "Cannot answer this request: it is malformed\n");

function refusal(status: number, body: string): ServedAnswer & { readonly body: string } {
  const headers = { "content-type": "text/plain; charset=utf-8", connection: "close" };
  return { status, headers, body };
}

/** Fails with the system's error, see {@link codeOf} and {@link reasonOf}. */
export async function startHttpServer(options: HttpServerOptions, log: Log): Promise<Listening> {
  const { host, port, name, clock, tls, descriptor } = options;
  const limit = new AdminConnectionLimit(clock);
  const closing = new AbortController();
  const { signal } = closing;
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    request.resume();
    void respond(request, response, { limit, options, signal });
  };
  const server = tls
    ? createSecureServer({
      ...LIMITS,
      ca: tls.caPem,
      cert: tls.certPem,
      key: tls.keyPem,
      minVersion: "TLSv1.2",
      requestCert: true,
      // Refused by a response with the reason.
      rejectUnauthorized: false,
      handshakeTimeout: LIMITS.headersTimeout,
    }, listener)
    : createServer(LIMITS, listener);
  server.on(tls ? "secureConnection" : "connection", (socket) => limit.enter(socket));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // The runtime has no HTTP server on a descriptor: its own socket is replaced.
    server.listen({ host, port: descriptor === undefined ? port : 0, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  server.on("error", (error) => log.warn(name, { error: messageOf(error) }));
  const bound = server.address();
  const actualPort = typeof bound === "object" && bound ? bound.port : port;
  const own = typeof bound === "object" && bound ? bound.address : host;
  const socket = serverSocketAt({ host: own, port: actualPort });
  if (descriptor !== undefined && !listenInstead({ host: own, port: actualPort }, descriptor)) {
    server.close();
    throw new ProxyError(
      "listen_failed",
      `Cannot use the socket of the process before for ${name}`,
    );
  }
  const address = {
    kind: "tcp",
    host,
    port: descriptor === undefined ? actualPort : port,
  } as const;
  log.info(`${name} listening`, { address: formatAddress(address) });
  return {
    address,
    copies: () => socket.copies(),
    leave() {
      server.close();
      // Clients of streams connect again, to the other process.
      closing.abort();
      limit.leave();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        closing.abort();
        // Streams write their last chunk first.
        setImmediate(() => server.closeAllConnections());
      }),
  };
}

async function respond(
  { socket, method = "", url: target = "", headers }: IncomingMessage,
  response: ServerResponse,
  { limit, options, signal }: {
    readonly limit: AdminConnectionLimit;
    readonly options: HttpServerOptions;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const isAuthorized = !options.tls || "authorized" in socket && socket.authorized === true;
  const peer = socket.remoteAddress ?? "";
  const answer = limit.serve(socket, response, options.isProbe?.(target) ?? false)
    ? await options.answer({ method, target, headers, peer, isAuthorized }).catch(() => MALFORMED)
    : TOO_MANY;
  const { status, body } = answer;
  if (!(body instanceof ReadableStream)) return answerWhole(body, answer);
  if (!limit.stream(socket)) {
    await body.cancel();
    return answerWhole(TOO_MANY_STREAMS.body, TOO_MANY_STREAMS);
  }
  response.writeHead(status, { ...answer.headers, connection: "close" });
  return await writeStream(response, body, { clock: options.clock, signal });

  function answerWhole(
    text: string | Uint8Array,
    { status, headers }: Omit<ServedAnswer, "body">,
  ): void {
    const length = { "content-length": Buffer.byteLength(text) };
    response.writeHead(status, { ...headers, ...length });
    response.end(method === "HEAD" ? "" : text);
  }
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

const REASONS = new Map([
  ["EADDRINUSE", "the address is in use"],
  ["EADDRNOTAVAIL", "this machine does not have that address"],
  ["EACCES", "no permission for that port"],
]);

export function reasonOf(error: unknown): string {
  return REASONS.get(codeOf(error)) ?? messageOf(error);
}

type Socket = IncomingMessage["socket"];

const PLACES = 64;
const FOR_PROBES = 2;
/** Places that streams may take: they last as long as their clients want. */
const STREAMS = 16;
/** The client of a request that lasts so long does not read the answer: its connection counts as idle. */
const SLOW_MS = 10_000;

export class AdminConnectionLimit {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Longest idle first. */
  readonly #idle = new Set<Socket>();
  /** Longest busy first. */
  readonly #busy = new Map<Socket, { requests: number; readonly sinceMs: number }>();
  readonly #streams = new Set<Socket>();
  #leaving = false;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  enter(socket: Socket): void {
    const taken = this.#idle.size + this.#busy.size + this.#streams.size;
    if (taken >= PLACES && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    this.#idle.add(socket);
    socket.once("close", () => this.#leave(socket));
  }

  /** Call for each request. False: there is no place for it. */
  serve(socket: Socket, answer: ServerResponse, isProbe: boolean): boolean {
    // Its response would wait for the end of the stream.
    if (this.#streams.has(socket)) return !this.#end(socket);
    const busy = this.#busy.get(socket);
    if (busy) busy.requests++;
    else {
      if (!isProbe && this.#busy.size + this.#streams.size >= PLACES - FOR_PROBES) return false;
      this.#idle.delete(socket);
      this.#busy.set(socket, { requests: 1, sinceMs: this.#clock.monotonic() });
    }
    answer.once("close", () => this.#answered(socket));
    return true;
  }

  /** The response of this busy connection is a stream. False: there are too many. */
  stream(socket: Socket): boolean {
    if (this.#busy.get(socket)?.requests !== 1 || this.#streams.size >= STREAMS) return false;
    this.#busy.delete(socket);
    this.#streams.add(socket);
    return true;
  }

  /** Ends idle connections, and each other one when it is idle. */
  leave(): void {
    this.#leaving = true;
    for (const socket of this.#idle) this.#end(socket);
  }

  #answered(socket: Socket): void {
    this.#streams.delete(socket);
    const busy = this.#busy.get(socket);
    if (!busy || --busy.requests > 0) return;
    this.#busy.delete(socket);
    if (socket.destroyed) return;
    this.#idle.add(socket);
    if (this.#leaving) this.#end(socket);
  }

  #makeRoom(): boolean {
    for (const socket of this.#idle) return this.#end(socket);
    const nowMs = this.#clock.monotonic();
    for (const [socket, { sinceMs }] of this.#busy) {
      return nowMs - sinceMs >= SLOW_MS && this.#end(socket);
    }
    return false;
  }

  #end(socket: Socket): true {
    this.#leave(socket);
    socket.destroy();
    return true;
  }

  #leave(socket: Socket): void {
    this.#idle.delete(socket);
    this.#busy.delete(socket);
    this.#streams.delete(socket);
  }
}

export interface SmallAnswer {
  readonly status: number;
  readonly body: string | Uint8Array;
  /** Default: plain text. */
  readonly type?: string;
}

export interface SmallServerOptions
  extends Pick<HttpServerOptions, "host" | "port" | "descriptor" | "name" | "clock" | "tls"> {
  /** The flag that gave its address, for errors: `-graceful-port`. */
  readonly flag: string;
  /**
   * All answers may be read by everyone on the network, as metrics may. Beyond loopback any host name is
   * accepted then: collectors use names of a machine that the machine itself does not know.
   */
  readonly isPublic?: boolean;
  /** `target`: path and query. `undefined`: nothing is there. */
  answer(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
  ): Promise<SmallAnswer | undefined>;
}

/** Answers GET. `accept`: the header. */
export type SmallPage = (
  target: string,
  accept: string | undefined,
) => Promise<SmallAnswer | undefined>;

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/** Throws `listen_failed` when the address cannot be bound. */
export async function startSmallServer(options: SmallServerOptions, log: Log): Promise<Listening> {
  const { host, port, descriptor, name, flag, clock, tls } = options;
  const names = options.isPublic && !LOOPBACK_HOST.test(host) ? undefined : machineNames();
  const answer = async (request: ServedRequest) => {
    const refused = whyRefused(request, options, names);
    const { status, body, type = "text/plain; charset=utf-8" } = refused === undefined
      ? await answerTo(request, options)
      : { status: 403, body: `Cannot answer this request: ${refused}\n` };
    const headers = {
      "content-type": type,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    };
    return { status, headers, body };
  };
  try {
    return await startHttpServer({ host, port, descriptor, name, clock, tls, answer }, log);
  } catch (error) {
    const address = formatAddress({ kind: "tcp", host, port });
    throw new ProxyError(
      "listen_failed",
      `Cannot listen on ${flag} ${address}: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

/** `names`: accepted host names; `undefined`: all. */
function whyRefused(
  { headers, isAuthorized }: ServedRequest,
  { host, name }: SmallServerOptions,
  names: readonly string[] | undefined,
): string | undefined {
  if (!isAuthorized) return "it shows no certificate of our CA";
  // A web page can make a browser send any of these requests, and must not stop a proxy.
  const site = headers["sec-fetch-site"];
  if (headers.origin !== undefined || site !== undefined && site !== "none") {
    return "it comes from a web page";
  }
  // A page under a name that resolves to this machine has the same origin for its browser.
  const request = { host: headers.host, origin: undefined };
  return names && refuseWebPage(request, { boundHost: host, server: name, names });
}

async function answerTo(
  { method, target, headers }: ServedRequest,
  { answer }: SmallServerOptions,
): Promise<SmallAnswer> {
  try {
    return await answer(method, target, headers) ??
      { status: 404, body: "There is nothing here.\n" };
  } catch (error) {
    return { status: 500, body: `Cannot answer: ${messageOf(error)}\n` };
  }
}
