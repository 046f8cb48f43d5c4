/**
 * A small gRPC server on our HTTP/2: one message comes in, one or many go out. Their content is left to
 * `services.ts`.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, Deadlines, messageOf } from "../../../../../src/base/mod.ts";
import { framed } from "../../../../../src/grpc/mod.ts";
import {
  addField,
  DEFAULT_HTTP_LIMITS,
  encodeGrpcMessage,
  fieldOf,
  type Fields,
  GRPC_STATUS,
  isGrpc,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
  trailersOnly,
  UNKNOWN_LENGTH,
} from "../../../../../src/http/mod.ts";
import type { Connection, Listener } from "../../../../../src/net/mod.ts";
import type { Acceptor } from "../../../../../src/dev/http/listener.ts";

/** The limit of Consul's servers. */
const MESSAGE_LIMIT_BYTES = 8 * 1024 * 1024;
const PREFIX_BYTES = 5;

/** Ends a call with a status that is not OK. */
export class GrpcRefusal extends Error {
  readonly code: number;

  constructor(code: number, text: string) {
    super(text);
    this.name = "GrpcRefusal";
    this.code = code;
  }
}

/** A call as its method sees it. */
export interface ServedCall {
  /** The value of `x-consul-token`; `""`: none. */
  readonly token: string;
  /** Sends a message. Ignored once the call is over. */
  send(message: Uint8Array): void;
  /** Ends the call, with OK unless it is refused. */
  end(refusal?: GrpcRefusal): void;
  /** `fn` is called once when the call is over. */
  onOver(fn: () => void): void;
}

/** An error ends the call: a {@link GrpcRefusal} with its status, any other as INTERNAL. */
export type ServedMethod = (request: Uint8Array, call: ServedCall) => void | Promise<void>;

interface GrpcServerOptions {
  readonly acceptor: Acceptor;
  readonly clock: Clock;
  readonly host: string;
  /** By path: `/package.Service/Method`. */
  readonly methods: ReadonlyMap<string, ServedMethod>;
}

/** Listens on one address; can be stopped and started again on the same port. */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #deadlines: Deadlines;
  readonly #open = new Map<Connection, ServerConnection>();
  readonly #calls = new Set<ServedExchange>();
  #listener: Listener | undefined;
  #port = 0;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock);
  }

  get port(): number {
    return this.#port;
  }

  get connections(): number {
    return this.#open.size;
  }

  /** Calls that are open. */
  get calls(): number {
    return this.#calls.size;
  }

  async start(port: number): Promise<void> {
    const { acceptor, host } = this.#options;
    const address = { kind: "tcp", host, port } as const;
    this.#listener = await acceptor.listen(
      { address, reusePort: false },
      (connection) => this.#accept(connection),
    );
    const bound = this.#listener.address;
    if (bound.kind === "tcp") this.#port = bound.port;
  }

  /** Ends the listener and every connection at once, as a killed server does. */
  stop(): void {
    this.#listener?.close();
    this.#listener = undefined;
    for (const connection of [...this.#open.values()]) connection.reset();
  }

  #accept(connection: Connection): void {
    const { clock } = this.#options;
    const served = serveHttp2(connection, {
      limits: { ...DEFAULT_HTTP_LIMITS, concurrentStreams: 2048 },
      clock,
      deadlines: this.#deadlines,
      events: {
        onRequest: (exchange) => this.#take(exchange),
        onInvalid: () => {},
        onClose: () => void this.#open.delete(connection),
      },
    });
    this.#open.set(connection, served);
  }

  #take(exchange: ServerExchange): void {
    const { path, method, fields } = exchange.request;
    const isCall = method === "POST" && isGrpc(fields);
    const serve = isCall ? this.#options.methods.get(path) : undefined;
    const call = new ServedExchange(exchange, serve);
    if (!isCall) return exchange.respond({ status: 415, length: 0, fields: [] }, true);
    this.#calls.add(call);
    call.onOver(() => this.#calls.delete(call));
    if (serve) return;
    const [, service = "", name = ""] = path.split("/");
    call.end(
      new GrpcRefusal(GRPC_STATUS.unimplemented, `unknown method ${name} for service ${service}`),
    );
  }
}

class ServedExchange implements ServedCall {
  readonly token: string;
  readonly #exchange: ServerExchange;
  readonly #onOver: (() => void)[] = [];
  #begun = false;
  #over = false;

  constructor(exchange: ServerExchange, serve: ServedMethod | undefined) {
    this.#exchange = exchange;
    this.token = fieldOf(exchange.request.fields, "x-consul-token") ?? "";
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    exchange.events = {
      onData: (chunk) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > MESSAGE_LIMIT_BYTES + PREFIX_BYTES) {
          this.end(new GrpcRefusal(GRPC_STATUS.resourceExhausted, "received message is too large"));
        }
      },
      onEnd: () => void this.#answer(Buffer.concat(chunks), serve),
      onDrain: () => {},
      onReset: () => this.#finish(),
    };
  }

  send(message: Uint8Array): void {
    if (this.#over) return;
    if (!this.#begun) {
      this.#begun = true;
      const fields: Fields = [];
      addField(fields, "content-type", "application/grpc");
      this.#exchange.respond({ status: 200, length: UNKNOWN_LENGTH, fields }, false);
    }
    this.#exchange.send(framed(message));
  }

  end(refusal?: GrpcRefusal): void {
    if (this.#over) return;
    this.#finish();
    const code = refusal?.code ?? GRPC_STATUS.ok;
    const text = refusal?.message ?? "";
    if (!this.#begun) {
      const fields = trailersOnly(code, text);
      return this.#exchange.respond({ status: 200, length: 0, fields }, true);
    }
    const trailers: Fields = [];
    addField(trailers, "grpc-status", String(code));
    if (text !== "") addField(trailers, "grpc-message", encodeGrpcMessage(text));
    this.#exchange.end(trailers);
  }

  onOver(fn: () => void): void {
    if (this.#over) fn();
    else this.#onOver.push(fn);
  }

  async #answer(body: Uint8Array, serve: ServedMethod | undefined): Promise<void> {
    if (this.#over || !serve) return;
    try {
      await serve(messageIn(body), this);
    } catch (error) {
      this.end(
        error instanceof GrpcRefusal
          ? error
          : new GrpcRefusal(GRPC_STATUS.internal, messageOf(error)),
      );
    }
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    for (const fn of this.#onOver) fn();
  }
}

/** The one message of a body. */
function messageIn(body: Uint8Array): Uint8Array {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  const whole = body.length >= PREFIX_BYTES && body[0] === 0 &&
    view.getUint32(1) === body.length - PREFIX_BYTES;
  if (!whole) throw new GrpcRefusal(GRPC_STATUS.internal, "the request is no single message");
  return body.subarray(PREFIX_BYTES);
}
