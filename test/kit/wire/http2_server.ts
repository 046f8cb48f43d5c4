/**
 * A small HTTP/2 server without TLS on the engine of the test: it answers each request, once it is
 * complete, with the request's body, or with a few bytes, unless an option says otherwise.
 *
 * @module
 */

import { Deadlines, systemClock } from "../../../src/base/mod.ts";
import {
  DEFAULT_HTTP_LIMITS,
  type Fields,
  type HttpEnd,
  type HttpLimits,
  type RequestHead,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
  UNKNOWN_LENGTH,
} from "../../../src/http/mod.ts";
import { type Listener, runtimeEngine } from "../../../src/net/mod.ts";
import type { Place } from "./echo.ts";
import { bytes } from "./http2_pair.ts";

interface Http2TestServer extends Place, AsyncDisposable {
  readonly connections: Set<ServerConnection>;
  readonly ends: HttpEnd[];
}

interface Http2ServerOptions {
  readonly limits?: Partial<HttpLimits>;
  /** 127.0.0.1 if absent. */
  readonly host?: string;
  /** Fields of the response; those of the request if absent. */
  readonly answer?: (request: RequestHead) => Fields;
  /** Called in place of the recorder. */
  readonly onRequest?: (exchange: ServerExchange) => void;
}

export async function startHttp2Server(
  options: Http2ServerOptions = {},
): Promise<Http2TestServer> {
  const { host = "127.0.0.1", answer: fieldsFor = ({ fields }) => [...fields] } = options;
  const deadlines = new Deadlines(systemClock);
  const connections = new Set<ServerConnection>();
  const ends: HttpEnd[] = [];
  const listener: Listener = await runtimeEngine().listen(
    { address: { kind: "tcp", host, port: 0 }, reusePort: false },
    (stream) => {
      const connection = serveHttp2(stream, {
        limits: { ...DEFAULT_HTTP_LIMITS, ...options.limits },
        clock: systemClock,
        deadlines,
        events: {
          onRequest: options.onRequest ??
            ((exchange) => answer(exchange, fieldsFor(exchange.request))),
          onInvalid: () => {},
          onClose: (end) => {
            ends.push(end);
            connections.delete(connection);
          },
        },
      });
      connections.add(connection);
    },
  );
  return {
    host,
    port: listener.address.kind === "tcp" ? listener.address.port : 0,
    connections,
    ends,
    [Symbol.asyncDispose]() {
      listener.close();
      for (const connection of connections) connection.reset();
      return Promise.resolve();
    },
  };
}

const GREETING = "a few bytes";

function answer(exchange: ServerExchange, fields: Fields): void {
  const { request, endsWithHead } = exchange;
  const head = { status: 200, length: UNKNOWN_LENGTH, fields };
  const greet = () => {
    exchange.respond({ ...head, length: GREETING.length }, request.method === "HEAD");
    exchange.send(bytes(GREETING));
    exchange.end();
  };
  if (endsWithHead) return greet();
  let responded = false;
  exchange.events = {
    onData(chunk) {
      if (!responded) exchange.respond(head, false);
      responded = true;
      if (!exchange.send(chunk)) exchange.pause();
    },
    onEnd: (trailers) => responded ? exchange.end(trailers) : greet(),
    onDrain: () => exchange.resume(),
    onReset: () => {},
  };
}
