/**
 * One HTTP/2 connection and the calls on it. It is dialled once; when it is lost its calls end, and the
 * next call gets a new one: when and how often is decided above.
 *
 * @module
 */

import { type Address, type Deadlines, formatAddress, messageOf, type Timer } from "../base/mod.ts";
import {
  addField,
  type ClientConnection,
  DEFAULT_HTTP_LIMITS,
  type Fields,
  type HttpEnd,
  type HttpLimits,
  openHttp2Client,
  UNKNOWN_LENGTH,
} from "../http/mod.ts";
import type { Connection as Socket, Dial } from "../net/mod.ts";
import type { AnyCall } from "./call.ts";
import { clientTlsFor, whyRefused } from "./server_check.ts";
import type { GrpcChannelOptions, GrpcLimits, Metadata } from "./types.ts";

export interface ConnectionOptions {
  readonly channel: Omit<GrpcChannelOptions, "addresses">;
  readonly limits: GrpcLimits;
  readonly deadlines: Deadlines;
  readonly address: Address;
  /** After it was open: it takes no calls any more, for this reason. */
  readonly onLost?: (reason: string) => void;
}

const HTTP_LIMITS: HttpLimits = {
  ...DEFAULT_HTTP_LIMITS,
  // More than a server's first flight of 1,000 secrets needs; what is not read waits at the server.
  streamWindowBytes: 1024 * 1024,
};
/** For the last words on a connection that is given up. */
const LINGER_MS = 1_000;

export class GrpcConnection {
  readonly #options: ConnectionOptions;
  readonly #fields: Fields;
  readonly #calls = new Set<AnyCall>();
  readonly #connecting: Timer;
  readonly #opened = Promise.withResolvers<void>();
  #dial: Dial | undefined;
  #socket: Socket | undefined;
  #http: ClientConnection | undefined;
  #isOpen = false;
  #over = false;
  #retired = false;
  /** A call on it has had a message. */
  answered = false;

  constructor(options: ConnectionOptions) {
    const { channel: { clock, metadata }, limits } = options;
    this.#options = options;
    this.#fields = fieldsOf(metadata);
    this.#opened.promise.catch(() => {});
    this.#connecting = clock.after(limits.connectMs, () => {
      this.#fail(`no connection within ${limits.connectMs} ms`);
    });
    void this.#connect();
  }

  /** The server takes calls; rejects with the reason where it does not. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** False: lost, about to be, or full; calls on it may still be served. */
  get usable(): boolean {
    return !this.#retired && this.#isOpen && (this.#http?.capacity ?? 0) > 0;
  }

  /** Only while it is usable. */
  start(call: AnyCall): void {
    const { channel: { tls }, address } = this.#options;
    const http = this.#http;
    if (!http) return;
    this.#calls.add(call);
    call.start((events) =>
      http.request(
        {
          method: "POST",
          scheme: tls ? "https" : "http",
          authority: tls?.serverName ??
            (address.kind === "unix" ? "localhost" : formatAddress(address)),
          path: call.path,
          upgrade: "",
          length: UNKNOWN_LENGTH,
          saysLength: false,
          expectsContinue: false,
          fields: withMetadata(this.#fields, call.metadata),
          version: "HTTP/2",
        },
        false,
        events,
      )
    );
  }

  /** No new calls. */
  retire(): void {
    this.#retired = true;
    if (this.#calls.size === 0) this.#shutDown();
  }

  forget(call: AnyCall): void {
    this.#calls.delete(call);
    if (this.#calls.size === 0 && this.#retired) this.#shutDown();
  }

  async #connect(): Promise<void> {
    const { channel: { engine, tls }, address } = this.#options;
    try {
      const material = await tls?.material();
      if (this.#over) return;
      this.#dial = engine.dial(
        {
          address,
          ...(tls && material && { tls: clientTlsFor(tls.serverName, { engine, material }) }),
        },
        {
          onConnected: (socket, peer) =>
            this.#connected(socket, material && whyRefused(peer, material)),
          onFailed: (_stage, reason) => this.#fail(reason),
        },
      );
    } catch (error) {
      this.#fail(messageOf(error));
    }
  }

  #connected(socket: Socket, refused: string | undefined): void {
    this.#socket = socket;
    if (refused !== undefined) return this.#fail(refused);
    const { channel: { clock, keepAliveMs, keepAliveTimeoutMs }, deadlines } = this.#options;
    this.#http = openHttp2Client(socket, {
      ...{ clock, deadlines, limits: HTTP_LIMITS },
      keepAlive: { intervalMs: keepAliveMs, timeoutMs: keepAliveTimeoutMs },
      events: {
        // The first thing that changes it are the settings of the server.
        onCapacity: () => this.#isOpen ? this.#look() : this.#open(),
        onClose: (end) => this.#isOpen ? this.#lost(whyLost(end)) : this.#fail(whyNoHttp2(end)),
      },
    });
  }

  #open(): void {
    if (this.#over) return;
    if (this.#http?.capacity === 0) return this.#fail("the server takes no calls");
    this.#isOpen = true;
    this.#connecting.cancel();
    this.#opened.resolve();
  }

  #look(): void {
    if (!this.#retired && this.#http?.capacity === 0) this.#lost("the server takes no more calls");
  }

  /** Without anybody to tell it to, one that was only full for a while is used again. */
  #lost(reason: string): void {
    const { onLost } = this.#options;
    if (!onLost || this.#retired) return;
    this.#retired = true;
    onLost(reason);
  }

  /** It did not come about. */
  #fail(reason: string): void {
    if (this.#over || this.#isOpen) return;
    this.#opened.reject(new Error(reason));
    this.#shutDown();
  }

  #shutDown(): void {
    if (this.#over) return;
    this.#over = true;
    this.#connecting.cancel();
    if (!this.#isOpen) {
      this.#opened.reject(new Error("it was given up"));
      this.#dial?.cancel();
      this.#socket?.reset();
      return;
    }
    this.#http?.drain();
    // Last words wait for a peer that may never read them.
    this.#options.channel.clock.after(LINGER_MS, () => this.#socket?.reset());
  }
}

function fieldsOf(metadata: Metadata): Fields {
  const fields: Fields = [];
  addField(fields, "te", "trailers");
  addField(fields, "content-type", "application/grpc");
  addField(fields, "user-agent", "grpc-postern");
  addField(fields, "grpc-accept-encoding", "identity");
  return withMetadata(fields, metadata);
}

function withMetadata(fields: Fields, metadata: Metadata): Fields {
  const all = [...fields];
  for (const [name, value] of Object.entries(metadata)) addField(all, name, value);
  return all;
}

function whyLost({ kind, detail }: HttpEnd): string {
  if (detail !== "") return detail;
  return kind === "closed" ? "the server closed the connection" : "the connection broke";
}

/** A server that minds our certificate says so after the handshake, too (TLS 1.3). */
function whyNoHttp2({ kind, detail }: HttpEnd): string {
  if (kind === "reset" && detail !== "") return detail;
  return "it does not begin as HTTP/2 does: is it a gRPC server, with TLS or without as configured?";
}
