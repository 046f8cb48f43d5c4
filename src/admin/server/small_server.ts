/**
 * A server of a few paths beside the admin server, for orchestrators and collectors of metrics, with the
 * same bounds.
 *
 * @module
 */

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type Clock, formatAddress, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import { refuseWebPage } from "../../http/mod.ts";
import { type Listening, listenOn, reasonOf, SERVER_LIMITS } from "./listening.ts";
import { machineNames } from "./machine_names.ts";
import { AdminConnectionLimit } from "./connection_limit.ts";

export interface SmallAnswer {
  readonly status: number;
  readonly body: string;
  /** Default: plain text. */
  readonly type?: string;
}

/** PEM texts that were checked before. Whoever asks must show a certificate that one of `caPem` has signed. */
export interface SmallServerTls {
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export interface SmallServerOptions {
  readonly host: string;
  readonly port: number;
  /** In the log: `lifecycle server`. */
  readonly name: string;
  /** What its place was given by, for errors: `-graceful-port`. */
  readonly flag: string;
  readonly clock: Clock;
  /**
   * It only shows what anybody on the network may read, as metrics. Beyond loopback it answers to any name
   * then: collectors know a machine by names that it does not know itself.
   */
  readonly isPublic?: boolean;
  /** Absent: plain text. */
  readonly tls?: SmallServerTls;
  /** `target`: path and query. `undefined`: there is nothing there. */
  answer(method: string, target: string): Promise<SmallAnswer | undefined>;
}

/** Throws `listen_failed` when the address cannot be had. */
export async function startSmallServer(options: SmallServerOptions, log: Log): Promise<Listening> {
  const { host, port, name, flag, clock, tls } = options;
  const places = new AdminConnectionLimit(clock);
  const names = options.isPublic && !LOOPBACK_HOST.test(host) ? undefined : machineNames();
  const server = serverFor(tls, (request, reply) => {
    // Never for a body: none is wanted.
    request.resume();
    void respond(request, reply, { places, names, options });
  });
  server.on(tls ? "secureConnection" : "connection", (socket) => places.enter(socket));
  try {
    return await listenOn(server, { host, port, name }, log);
  } catch (error) {
    const address = formatAddress({ kind: "tcp", host, port });
    throw new ProxyError(
      "listen_failed",
      `Cannot listen on ${flag} ${address}: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;

interface Serving {
  readonly places: AdminConnectionLimit;
  /** Of this machine, one of which a request has to say; `undefined`: any name will do. */
  readonly names: readonly string[] | undefined;
  readonly options: SmallServerOptions;
}

function serverFor(tls: SmallServerTls | undefined, listener: RequestListener) {
  if (!tls) return createServer(SERVER_LIMITS, listener);
  const { caPem: ca, certPem: cert, keyPem: key } = tls;
  return createSecureServer({
    ...SERVER_LIMITS,
    ...{ ca, cert, key, requestCert: true, minVersion: "TLSv1.2" },
    // It is refused by an answer, so that whoever asks is told why.
    ...{ rejectUnauthorized: false, handshakeTimeout: SERVER_LIMITS.headersTimeout },
  }, listener);
}

async function respond(
  request: IncomingMessage,
  reply: ServerResponse,
  serving: Serving,
): Promise<void> {
  const answer = await answerTo(request, reply, serving);
  const { status, body, type = "text/plain; charset=utf-8" } = answer;
  reply.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  reply.end(request.method === "HEAD" ? "" : body);
}

async function answerTo(
  { socket, method = "", url = "", headers }: IncomingMessage,
  reply: ServerResponse,
  { places, names, options }: Serving,
): Promise<SmallAnswer> {
  if (!places.serve(socket, reply, false)) {
    return { status: 503, body: "Cannot answer now: too many requests are being answered\n" };
  }
  if (options.tls && !("authorized" in socket && socket.authorized === true)) {
    return { status: 403, body: "Cannot answer this request: it shows no certificate of our CA\n" };
  }
  // A page in somebody's browser can send any of these requests, and must not end a proxy.
  const site = headers["sec-fetch-site"];
  if (headers.origin !== undefined || site !== undefined && site !== "none") {
    return { status: 403, body: "Cannot answer this request: it comes from a web page\n" };
  }
  // Nor may one whose name resolves to this machine, which its browser takes for the page's own server.
  const asked = { host: headers.host, origin: undefined };
  const own = names && { boundHost: options.host, server: options.name, names };
  const refused = own && refuseWebPage(asked, own);
  if (refused) return { status: 403, body: `Cannot answer this request: ${refused}\n` };
  try {
    return await options.answer(method, url) ?? { status: 404, body: "There is nothing here.\n" };
  } catch (error) {
    return { status: 500, body: `Cannot answer: ${messageOf(error)}\n` };
  }
}
