/**
 * Consul's servers as a session sees them, without sockets: each answers by gRPC as a test sets, and can
 * be killed, hung or made to refuse.
 *
 * @example
 * const servers = new MemoryServers(clock);
 * const one = servers.add("10.0.0.1");
 * one.answer(SIGN.path, (call) => call.end(7, "Permission denied"));
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type Clock, Deadlines } from "../../../src/base/mod.ts";
import { framed } from "../../../src/grpc/message_reader.ts";
import {
  addField,
  DEFAULT_HTTP_LIMITS,
  type DialEngine,
  fieldOf,
  type Fields,
  serveHttp2,
  type ServerConnection,
  type ServerExchange,
  UNKNOWN_LENGTH,
} from "../../../src/http/mod.ts";
import { HeldBytes } from "../../../src/http/held_bytes.ts";
import { type MemoryConnection, memoryPair } from "../engine/memory_pair.ts";
import {
  GET_FEATURES,
  SERVERS_PROTOBUF,
  WATCH_SERVERS,
} from "../../../src/consul/servers/methods.ts";

export type Answer = (call: MemoryCall) => void;

export class MemoryServers {
  readonly #clock: Clock;
  readonly #servers = new Map<string, MemoryServer>();
  /** Hosts that were dialled, in order. */
  readonly dialled: string[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(host: string): MemoryServer {
    const server = new MemoryServer(host, this.#clock);
    this.#servers.set(host, server);
    return server;
  }

  get(host: string): MemoryServer {
    const server = this.#servers.get(host);
    if (!server) throw new Error(`there is no server ${host}`);
    return server;
  }

  readonly engine: DialEngine = {
    dial: ({ address }, handler) => {
      const host = address.kind === "tcp" ? address.host : "";
      this.dialled.push(host);
      let cancelled = false;
      let connection: MemoryConnection | undefined;
      queueMicrotask(() => {
        if (cancelled) return;
        const server = this.#servers.get(host);
        if (server?.state === "up") handler.onConnected(connection = server.accept(), undefined);
        // A dial to a server that hangs gets no answer.
        else if (server?.state !== "hung") handler.onFailed("connect", "connection refused");
      });
      return {
        cancel() {
          cancelled = true;
          connection?.reset();
        },
      };
    },
    clientTls: () => ({ kind: "client" }),
  };
}

export class MemoryServer {
  readonly host: string;
  readonly calls: MemoryCall[] = [];
  state: "up" | "down" | "hung" = "up";
  /** Connections that it has had. */
  accepted = 0;
  readonly #clock: Clock;
  readonly #answers = new Map<string, Answer>();
  readonly #open = new Map<ServerConnection, MemoryConnection>();

  constructor(host: string, clock: Clock) {
    this.host = host;
    this.#clock = clock;
    this.answer(GET_FEATURES.path, (call) => {
      call.send("SupportedFeatures", {
        supported_dataplane_features: [
          { feature_name: "WATCH_SERVERS", supported: true },
          { feature_name: "EDGE_CERTIFICATE_MANAGEMENT", supported: true },
        ],
      });
      call.end(0);
    });
  }

  /** Open connections. */
  get connections(): number {
    return this.#open.size;
  }

  /** Open calls, of one method if given. */
  open(path?: string): MemoryCall[] {
    return this.calls.filter((call) => !call.over && (path === undefined || call.path === path));
  }

  answer(path: string, answer: Answer): void {
    this.#answers.set(path, answer);
  }

  /** Followers of the servers get these, later followers as well. */
  knows(...hosts: string[]): void {
    const servers = hosts.map((address) => ({ id: address, address, version: "1.22.7" }));
    const tell = (call: MemoryCall) => call.send("ServerList", { servers });
    for (const call of this.open(WATCH_SERVERS.path)) tell(call);
    this.answer(WATCH_SERVERS.path, tell);
  }

  /** As `kill -9`. */
  kill(): void {
    this.state = "down";
    for (const connection of this.#open.values()) connection.reset();
    this.#open.clear();
  }

  /** As SIGSTOP: connections stay and nothing is sent. */
  hang(): void {
    this.state = "hung";
    for (const connection of this.#open.values()) connection.pause();
  }

  /** Takes no more calls, and serves those that are open. */
  drain(): void {
    for (const http of [...this.#open.keys()]) http.drain();
  }

  /** As SIGTERM: GOAWAY, streams end with UNAVAILABLE. */
  leave(): void {
    this.state = "down";
    this.drain();
    for (const call of this.open()) call.end(14, "Connection dropped");
    this.#open.clear();
  }

  accept(): MemoryConnection {
    this.accepted++;
    const [ours, theirs] = memoryPair();
    const http: ServerConnection = serveHttp2(theirs, {
      limits: DEFAULT_HTTP_LIMITS,
      clock: this.#clock,
      deadlines: new Deadlines(this.#clock),
      account: new HeldBytes(1 << 24).open("peer"),
      events: {
        onRequest: (exchange) => this.#called(exchange),
        onInvalid: () => {},
        onClose: () => void this.#open.delete(http),
      },
    });
    this.#open.set(http, theirs);
    return ours;
  }

  #called(exchange: ServerExchange): void {
    const call = new MemoryCall(exchange);
    this.calls.push(call);
    exchange.events = {
      onData: (chunk) => void call.chunks.push(Buffer.from(chunk)),
      onEnd: () => this.#answers.get(call.path)?.(call),
      onDrain: () => {},
      onReset: () => void (call.over = true),
    };
  }
}

export class MemoryCall {
  readonly path: string;
  /** `""`: none. */
  readonly token: string;
  readonly chunks: Buffer[] = [];
  readonly #exchange: ServerExchange;
  #begun = false;
  over = false;

  constructor(exchange: ServerExchange) {
    this.#exchange = exchange;
    this.path = exchange.request.path;
    this.token = fieldOf(exchange.request.fields, "x-consul-token") ?? "";
  }

  /** The message that it came with. */
  request(type: string): Readonly<Record<string, unknown>> {
    return SERVERS_PROTOBUF.decode(type, Buffer.concat(this.chunks).subarray(5));
  }

  send(type: string, message: Readonly<Record<string, unknown>>): void {
    this.sendBytes(SERVERS_PROTOBUF.encode(type, message));
  }

  sendBytes(message: Uint8Array): void {
    this.#begin();
    this.#exchange.send(framed(message));
  }

  /** Ends the call with this status of gRPC. */
  end(code: number, text = ""): void {
    if (this.over) return;
    this.#begin();
    this.over = true;
    const trailers: Fields = [];
    addField(trailers, "grpc-status", String(code));
    if (text !== "") addField(trailers, "grpc-message", encodeURIComponent(text));
    this.#exchange.end(trailers);
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    const fields: Fields = [];
    addField(fields, "content-type", "application/grpc");
    this.#exchange.respond({ status: 200, length: UNKNOWN_LENGTH, fields }, false);
  }
}
