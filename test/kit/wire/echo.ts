/** Echo servers and clients that notice every lost, changed, doubled or late byte. @module */

import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { eventually } from "../process/process.ts";

export interface Place {
  readonly host: string;
  readonly port: number;
}

export interface ServerOptions {
  /** 127.0.0.1 if absent. */
  readonly host?: string;
  /** Port to listen on; any free one if absent. */
  readonly port?: number;
  /** PEM: it speaks TLS, and asks for no client certificates. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

/** A TCP server that keeps halves apart. */
export class TestServer implements Place {
  readonly host: string;
  readonly port: number;
  /** Connections so far. */
  accepted = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(server: Server, host: string) {
    this.#server = server;
    this.host = host;
    this.port = (server.address() as AddressInfo).port;
    server.on("connection", (socket) => {
      this.accepted++;
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /** Resets open connections and accepts no more. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function startServer(
  onSocket: (socket: Socket) => void,
  options: ServerOptions = {},
): Promise<TestServer> {
  const { host = "127.0.0.1", port = 0, tls } = options;
  const take = (socket: Socket) => {
    // A health check connects and resets: nothing to do about it here.
    socket.on("error", () => socket.destroy());
    onSocket(socket);
  };
  const server = tls
    ? createTlsServer(tls, take)
    : createServer({ allowHalfOpen: true, noDelay: true }, take);
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen({ host, port, backlog: 511 }, () => resolve(new TestServer(server, host)));
  });
}

/** Sends back what it gets, and its end; `greeting` is sent first, to tell instances apart. */
export function startEcho(
  options: ServerOptions & { readonly greeting?: string } = {},
): Promise<TestServer> {
  return startServer((socket) => {
    if (options.greeting) socket.write(options.greeting);
    socket.pipe(socket);
  }, options);
}

/** One connection to an echo service. */
export class EchoClient {
  readonly #socket: Socket;
  #chunks: Uint8Array[] = [];
  #buffered = 0;
  #ended = false;
  #closed = false;
  #error: Error | undefined;
  #wake: () => void = () => {};
  /** Resolves with the time (`performance.now()`) at which the other side ended or reset it. */
  readonly over: Promise<number>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.over = new Promise((resolve) => {
      socket.once("end", () => resolve(performance.now()));
      socket.once("close", () => resolve(performance.now()));
    });
    socket.on("data", (chunk: Uint8Array) => {
      this.#chunks.push(chunk);
      this.#buffered += chunk.length;
      this.#wake();
    });
    socket.on("end", () => {
      this.#ended = true;
      this.#wake();
    });
    socket.on("error", (error) => {
      this.#error = error;
      this.#wake();
    });
    socket.on("close", () => {
      this.#closed = true;
      this.#wake();
    });
  }

  static open(place: Place, options: { readonly timeoutMs?: number } = {}): Promise<EchoClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({
        host: place.host,
        port: place.port,
        allowHalfOpen: true,
        noDelay: true,
      });
      const timer = setTimeout(() => {
        socket.destroy();
        reject(new Error(`Cannot connect to ${place.host}:${place.port}: no answer`));
      }, options.timeoutMs ?? 10_000);
      socket.once("error", (error) => {
        clearTimeout(timer);
        reject(new Error(`Cannot connect to ${place.host}:${place.port}: ${error.message}`));
      });
      socket.once("connect", () => {
        clearTimeout(timer);
        resolve(new EchoClient(socket));
      });
    });
  }

  /** Ended, closed or reset by the other side. */
  get isOver(): boolean {
    return this.#ended || this.#closed || this.#error !== undefined;
  }

  /** Sends `payload` and demands the same bytes back. */
  async exchange(
    payload: Uint8Array,
    options: { readonly timeoutMs?: number } = {},
  ): Promise<void> {
    this.#socket.write(payload);
    const answer = await this.read(payload.length, options);
    const at = answer.findIndex((byte, index) => byte !== payload[index]);
    if (at >= 0) throw new Error(`Echo differs at byte ${at} of ${payload.length}`);
  }

  /** Exactly `length` bytes. */
  async read(length: number, options: { readonly timeoutMs?: number } = {}): Promise<Uint8Array> {
    const { timeoutMs = 10_000 } = options;
    const until = performance.now() + timeoutMs;
    while (this.#buffered < length) {
      if (this.#error) throw new Error(`Connection failed: ${this.#error.message}`);
      if (this.isOver) {
        throw new Error(`Connection ended after ${this.#buffered} of ${length} bytes`);
      }
      if (performance.now() >= until) {
        throw new Error(`Only ${this.#buffered} of ${length} bytes within ${timeoutMs} ms`);
      }
      await this.#change(until);
    }
    const all = Buffer.concat(this.#chunks);
    this.#chunks = all.length > length ? [all.subarray(length)] : [];
    this.#buffered = all.length - length;
    return all.subarray(0, length);
  }

  /** The bytes up to the first newline: the greeting of a greeting server. */
  async readLine(options: { readonly timeoutMs?: number } = {}): Promise<string> {
    let line = "";
    while (!line.endsWith("\n")) line += String.fromCharCode(...await this.read(1, options));
    return line.trimEnd();
  }

  /** Ends our side and demands that the other ends too, with no byte more. */
  async finish(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    const until = performance.now() + (options.timeoutMs ?? 10_000);
    this.#socket.end();
    while (!this.#ended) {
      if (this.#error) throw new Error(`Connection failed at its end: ${this.#error.message}`);
      if (this.#closed) throw new Error("Connection was closed without an end of stream");
      if (performance.now() >= until) throw new Error("No end of stream after half-close");
      await this.#change(until);
    }
    if (this.#buffered > 0) throw new Error(`${this.#buffered} bytes too many`);
    this.#socket.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #change(until: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(1, until - performance.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Waits until one message comes back through `place`. */
export async function waitForEcho(
  place: Place,
  options: { readonly timeoutMs?: number; readonly greeting?: string } = {},
): Promise<void> {
  await eventually(`echo through ${place.host}:${place.port}`, async () => {
    const client = await EchoClient.open(place);
    try {
      if (options.greeting) {
        const line = await client.readLine({ timeoutMs: 3_000 });
        if (line !== options.greeting) throw new Error(`answered by ${line}`);
      }
      await client.exchange(new TextEncoder().encode("hello"), { timeoutMs: 3_000 });
      await client.finish({ timeoutMs: 3_000 });
      return true;
    } finally {
      client.destroy();
    }
  }, { timeoutMs: options.timeoutMs ?? 40_000 });
}

/** Waits until new connections to `place` are refused, as {@link expectRefused} wants them. */
export async function waitForRefusal(
  place: Place,
  options: { readonly timeoutMs?: number } = {},
): Promise<void> {
  await eventually(`${place.host}:${place.port} refuses`, async () => {
    await expectRefused(place);
    return true;
  }, { timeoutMs: options.timeoutMs ?? 40_000 });
}

/** Fails unless a new connection to `place` is refused or ended without a byte. */
export async function expectRefused(place: Place): Promise<void> {
  let client: EchoClient;
  try {
    client = await EchoClient.open(place);
  } catch {
    return; // refused at once is refused, too
  }
  try {
    await client.exchange(new TextEncoder().encode("hello"), { timeoutMs: 15_000 });
  } catch (error) {
    // Held open without an answer is not refused.
    if (!client.isOver) throw error;
    return;
  } finally {
    client.destroy();
  }
  throw new Error(`Bytes came through ${place.host}:${place.port} that should not have`);
}

/** Bytes that differ with `seed`, between 1 and `maxBytes` of them. */
export function pattern(seed: number, maxBytes: number): Uint8Array {
  const bytes = new Uint8Array(1 + (seed * 7919) % maxBytes);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (seed * 31 + i * 131 + (i >> 8)) & 0xff;
  return bytes;
}
