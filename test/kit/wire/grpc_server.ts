/**
 * A gRPC server with one method that echoes, and the ways in which servers go wrong on the wire.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import * as net from "node:net";
import type { Address } from "../../../src/base/mod.ts";

export const ECHO_PATH = "/test.Echo/Echo";

interface EchoTls {
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
  readonly requireClient: boolean;
}

interface EchoServer extends AsyncDisposable {
  readonly address: Address;
  /** Calls open now. */
  readonly open: number;
  /** The metadata of the last call. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/**
 * Answers each message with itself, but `end` with the end, `fail` with INVALID_ARGUMENT, `big N` with N
 * bytes and `flood` with messages for ever.
 */
export async function startGrpcEcho(tls?: EchoTls): Promise<EchoServer> {
  const { default: grpc } = await import("@grpc/grpc-js");
  const server = new grpc.Server();
  const bytes = (value: Uint8Array) => Buffer.from(value);
  let open = 0;
  let metadata: Record<string, unknown> = {};
  const echo = {
    path: ECHO_PATH,
    requestStream: true,
    responseStream: true,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  };
  server.addService({ echo }, {
    echo: (call: EchoCall) => {
      open++;
      metadata = call.metadata.getMap();
      let over = false;
      const ended = () => {
        if (!over) open--;
        over = true;
      };
      call.on("data", (message) => answer(call, { message, isOver: () => over }));
      call.on("end", () => call.end());
      call.on("cancelled", ended);
      call.on("close", ended);
      call.on("error", ended);
    },
  });
  const credentials = tls
    ? grpc.ServerCredentials.createSsl(
      Buffer.from(tls.caPem),
      [{ private_key: Buffer.from(tls.keyPem), cert_chain: Buffer.from(tls.certPem) }],
      tls.requireClient,
    )
    : grpc.ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    address: { kind: "tcp", host: "127.0.0.1", port },
    get open() {
      return open;
    },
    get metadata() {
      return metadata;
    },
    [Symbol.asyncDispose]: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}

interface EchoCall {
  readonly metadata: { getMap(): Record<string, unknown> };
  write(bytes: Uint8Array): boolean;
  end(): void;
  emit(event: "error", error: { readonly code: number; readonly details: string }): boolean;
  on(event: "data", listener: (bytes: Uint8Array) => void): unknown;
  on(event: "end" | "cancelled" | "close" | "error", listener: () => void): unknown;
}

function answer(
  call: EchoCall,
  { message, isOver }: { readonly message: Uint8Array; readonly isOver: () => boolean },
): void {
  const [word = "", count = "0"] = Buffer.from(message).toString("latin1", 0, 32).split(" ");
  if (word === "end") return call.end();
  if (word === "fail") return void call.emit("error", { code: 3, details: "no\nsuch name" });
  if (word === "big") return void call.write(new Uint8Array(Number(count)));
  if (word !== "flood") return void call.write(message);
  // As fast as they are taken: what piles up beyond that is this process' own time, the client's too.
  const more = () => {
    if (isOver()) return;
    for (let count = 0; count < 100; count++) if (!call.write(new Uint8Array(100))) break;
    setImmediate(more);
  };
  more();
}

/** Starts a TCP server that calls this with each connection. */
export async function startTcp(
  onConnection: (socket: net.Socket) => void,
): Promise<AsyncDisposable & { readonly address: Address; readonly open: number }> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    onConnection(socket);
    // A socket that is not read does not notice the end.
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    address: { kind: "tcp", host: "127.0.0.1", port },
    get open() {
      return sockets.size;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Relays bytes in both directions until the test silences it, without a word to either side. */
export async function startStallingRelay(
  to: Address,
): Promise<AsyncDisposable & { readonly address: Address; readonly open: number; stall(): void }> {
  let stalled = false;
  const relay = await startTcp((socket) => {
    if (to.kind !== "tcp") throw new TypeError("Cannot relay to a unix socket");
    const other = net.connect(to.port, to.host);
    other.on("error", () => {});
    socket.on("data", (chunk) => void (stalled || other.write(chunk)));
    other.on("data", (chunk) => void (stalled || socket.write(chunk)));
    socket.on("close", () => other.destroy());
  });
  return {
    address: relay.address,
    get open() {
      return relay.open;
    },
    stall: () => void (stalled = true),
    [Symbol.asyncDispose]: () => relay[Symbol.asyncDispose](),
  };
}

/** Begins a message of a megabyte and sends a byte of it now and then, for ever. */
export async function startTrickle(): Promise<
  AsyncDisposable & { readonly address: Address; readonly streams: number }
> {
  const sessions = new Set<http2.ServerHttp2Session>();
  let streams = 0;
  const server = http2.createServer();
  server.on("session", (session: http2.ServerHttp2Session) => sessions.add(session));
  server.on("stream", (stream: http2.ServerHttp2Stream) => {
    streams++;
    stream.on("error", () => {});
    stream.respond({ ":status": 200, "content-type": "application/grpc" });
    stream.write(Buffer.from([0, 0, 16, 0, 0]));
    const timer = setInterval(() => stream.write(Buffer.from([1])), 5);
    stream.on("close", () => clearInterval(timer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    address: { kind: "tcp", host: "127.0.0.1", port },
    get streams() {
      return streams;
    },
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
