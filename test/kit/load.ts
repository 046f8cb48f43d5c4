/**
 * Echo servers and clients that notice every lost, changed, doubled or late byte: what "0 errors under
 * load" is measured with. Bounded: a few connections, small messages, a pause between them.
 *
 * @module
 */

import { connect, createServer, type Server, type Socket } from "node:net";
import { pause } from "./process.ts";

export interface Place {
  readonly host: string;
  readonly port: number;
}

export interface EchoOptions {
  readonly host: string;
  /** Port to listen on; any free one if absent. */
  readonly port?: number;
  /** Sent first on every connection, to tell instances apart. */
  readonly greeting?: string;
}

/** Sends back what it gets, ends its side when the peer ended theirs. */
export class EchoServer implements Place {
  readonly host: string;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;
  /** Connections accepted so far. */
  readonly accepted: () => number;

  constructor(server: Server, sockets: Set<Socket>, place: Place & { accepted: () => number }) {
    this.#server = server;
    this.#sockets = sockets;
    this.host = place.host;
    this.port = place.port;
    this.accepted = place.accepted;
  }

  get open(): number {
    return this.#sockets.size;
  }

  /** Resets what is open and accepts no more. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function startEcho(options: EchoOptions): Promise<EchoServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    accepted++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    // A health check connects and resets: nothing to do about it here.
    socket.on("error", () => socket.destroy());
    if (options.greeting) socket.write(options.greeting);
    socket.pipe(socket);
  });
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen({ host: options.host, port: options.port ?? 0, backlog: 511 }, () => {
      const address = server.address();
      const port = typeof address === "object" && address ? address.port : 0;
      resolve(
        new EchoServer(server, sockets, { host: options.host, port, accepted: () => accepted }),
      );
    });
  });
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

  /** The bytes up to the first newline: what a greeting server says. */
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

export interface LoadOptions {
  /** Connections that stay and exchange messages. */
  readonly longLived?: number;
  /** Clients that open a connection for each message. */
  readonly shortLived?: number;
  readonly pauseMs?: number;
  readonly maxMessageBytes?: number;
  /** The server's first line, if it says one. */
  readonly greeting?: boolean;
}

export interface LoadResult {
  readonly exchanges: number;
  readonly connections: number;
  readonly errors: number;
  /** The first few, with the second in which each happened. */
  readonly messages: readonly string[];
}

/** Fails unless the load went through without a single error, and was more than a few messages. */
export function assertFlawless(result: LoadResult, options: { readonly atLeast: number }): void {
  if (result.errors > 0) {
    throw new Error(
      `${result.errors} errors in ${result.exchanges} exchanges:\n${result.messages.join("\n")}`,
    );
  }
  if (result.exchanges < options.atLeast) {
    throw new Error(`Only ${result.exchanges} exchanges: too few to prove anything`);
  }
}

const KEPT_MESSAGES = 20;

/** Clients that run until they are stopped. */
export class Load {
  readonly #place: Place;
  readonly #options: Required<LoadOptions>;
  readonly #started = performance.now();
  readonly #workers: Promise<void>[] = [];
  #stopping = false;
  #exchanges = 0;
  #connections = 0;
  #errors = 0;
  readonly #messages: string[] = [];

  constructor(place: Place, options: LoadOptions = {}) {
    this.#place = place;
    this.#options = {
      longLived: 4,
      shortLived: 4,
      pauseMs: 10,
      maxMessageBytes: 32_768,
      greeting: false,
      ...options,
    };
    for (let i = 0; i < this.#options.longLived; i++) this.#workers.push(this.#longLived(i));
    for (let i = 0; i < this.#options.shortLived; i++) {
      this.#workers.push(this.#shortLived(100 + i));
    }
  }

  get result(): LoadResult {
    return {
      exchanges: this.#exchanges,
      connections: this.#connections,
      errors: this.#errors,
      messages: this.#messages,
    };
  }

  /** Lets every client finish its message and close in order. */
  async stop(): Promise<LoadResult> {
    this.#stopping = true;
    await Promise.all(this.#workers);
    return this.result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #longLived(seed: number): Promise<void> {
    while (!this.#stopping) {
      await this.#guarded("long-lived", async (client) => {
        while (!this.#stopping) {
          await this.#exchange(client, seed);
          await pause(this.#options.pauseMs);
        }
      });
    }
  }

  async #shortLived(seed: number): Promise<void> {
    while (!this.#stopping) {
      await this.#guarded("short-lived", (client) => this.#exchange(client, seed));
      await pause(this.#options.pauseMs);
    }
  }

  async #exchange(client: EchoClient, seed: number): Promise<void> {
    await client.exchange(pattern(seed + this.#exchanges, this.#options.maxMessageBytes));
    this.#exchanges++;
  }

  async #guarded(kind: string, use: (client: EchoClient) => Promise<void>): Promise<void> {
    let client: EchoClient | undefined;
    try {
      client = await EchoClient.open(this.#place);
      this.#connections++;
      if (this.#options.greeting) await client.readLine();
      await use(client);
      await client.finish();
    } catch (error) {
      this.#errors++;
      const second = ((performance.now() - this.#started) / 1000).toFixed(1);
      const message = error instanceof Error ? error.message : String(error);
      if (this.#messages.length < KEPT_MESSAGES) {
        this.#messages.push(`${second} s ${kind}: ${message}`);
      }
      // A target that is down must not turn the load into a busy loop.
      await pause(100);
    } finally {
      client?.destroy();
    }
  }
}

/** Bytes that differ with `seed`, between 1 and `maxBytes` of them. */
export function pattern(seed: number, maxBytes: number): Uint8Array {
  const bytes = new Uint8Array(1 + (seed * 7919) % maxBytes);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (seed * 31 + i * 131 + (i >> 8)) & 0xff;
  return bytes;
}
