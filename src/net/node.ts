/**
 * The port on `node:net` and `node:tls`, for Deno. A TLS socket's `write` gives no backpressure there,
 * but its callback does: a connection counts the bytes whose callback has not come.
 *
 * @module
 */

import { chmodSync } from "node:fs";
import * as net from "node:net";
import * as tls from "node:tls";
import { formatAddress, messageOf } from "../base/mod.ts";
import { clearStaleSocket, listenError } from "./listen.ts";
import {
  type AcceptedConnection,
  type ClientTls,
  type Connection,
  type ConnectionEvents,
  DEFAULT_CIPHER_SUITES,
  type Dial,
  type DialHandler,
  type DialOptions,
  type Engine,
  type HandshakeOutcome,
  ignoredEvents,
  type Listener,
  type ListenOptions,
  type PresentedPeer,
  type ServerTls,
  type TlsMaterial,
} from "./port.ts";

/** A server that never listens: it shakes hands on sockets handed to it. */
interface NodeServerTls extends ServerTls {
  readonly server: tls.Server;
  /** Who waits for the handshake of which socket, by the peer's address and port. */
  readonly waiting: Map<string, (socket: tls.TLSSocket | undefined, reason: string) => void>;
}
interface NodeClientTls extends ClientTls {
  readonly options: tls.ConnectionOptions;
}

/** Unsent bytes at which `write` asks its caller to stop. */
const HIGH_WATER_BYTES = 256 * 1024;
const KEEP_ALIVE_MS = 15_000;

/** The engine for any runtime with Node's networking modules. */
export function nodeEngine(): Engine {
  return {
    name: runtimeName(),
    listen: (options, onConnection) =>
      listen(options, (socket) => onConnection(new NodeConnection(socket))),
    listenSecure: (options, onAccepted) =>
      listen(options, (socket) => onAccepted(new Accepted(socket))),
    dial,
    serverTls,
    clientTls: (material, { serverName }): NodeClientTls => ({
      kind: "client",
      options: {
        ...commonTls(material),
        servername: serverName,
        rejectUnauthorized: true,
        // Mesh leaves carry a SPIFFE URI and no host name; identity is judged by our own check.
        checkServerIdentity: () => undefined,
      },
    }),
  };
}

function runtimeName(): string {
  const { deno } = (globalThis as { Deno?: { version: { deno: string } } }).Deno?.version ?? {};
  return deno ? `deno ${deno}` : `node ${process.versions.node}`;
}

function commonTls(material: TlsMaterial): tls.SecureContextOptions {
  const suites = material.cipherSuites.length ? material.cipherSuites : DEFAULT_CIPHER_SUITES;
  return {
    cert: material.certPem,
    key: material.keyPem,
    ca: [...material.rootPems],
    minVersion: material.minVersion,
    maxVersion: material.maxVersion,
    // The runtime takes its TLS 1.3 suites from the same list.
    ciphers: ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", ...suites].join(":"),
  };
}

function serverTls(material: TlsMaterial): NodeServerTls {
  const waiting: NodeServerTls["waiting"] = new Map();
  const settle = (socket: tls.TLSSocket, secured: boolean, reason: string) => {
    const key = keyOf(socket);
    const waiter = waiting.get(key);
    if (!waiter) return void socket.destroy();
    waiting.delete(key);
    waiter(secured ? socket : undefined, reason);
  };
  const server = tls.createServer({
    ...commonTls(material),
    requestCert: true,
    rejectUnauthorized: true,
    allowHalfOpen: true,
  } as tls.TlsOptions, (socket) => settle(socket, true, ""));
  server.on("tlsClientError", (error: Error, socket) => settle(socket, false, messageOf(error)));
  return { kind: "server", server, waiting };
}

function keyOf(socket: net.Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}

async function listen(
  { address, reusePort }: ListenOptions,
  onSocket: (socket: net.Socket) => void,
): Promise<Listener> {
  if (address.kind === "unix") await clearStaleSocket(address.path);
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, onSocket);
  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error) => reject(listenError(address, error));
    server.once("error", failed);
    const ready = () => {
      server.off("error", failed);
      resolve();
    };
    if (address.kind === "unix") server.listen(address.path, ready);
    else server.listen({ host: address.host, port: address.port, reusePort } as object, ready);
  });
  if (address.kind === "unix" && address.mode !== undefined) chmodSync(address.path, address.mode);
  const bound = server.address();
  return {
    address: address.kind === "tcp" && typeof bound === "object" && bound
      ? { ...address, port: bound.port }
      : address,
    close: () => void server.close(),
  };
}

class NodeConnection implements Connection {
  events: ConnectionEvents = ignoredEvents;
  readonly remote: string;
  readonly #socket: net.Socket;
  #unsentBytes = 0;
  #asked = false;
  #ended = false;
  #closed = false;
  #broken = false;

  constructor(socket: net.Socket, remote?: string) {
    this.#socket = socket;
    this.remote = remote ?? remoteOf(socket);
    socket.setKeepAlive?.(true, KEEP_ALIVE_MS);
    socket.on("data", (chunk: Uint8Array) => this.events.onData(chunk));
    socket.on("end", () => this.events.onEnd());
    socket.on("error", () => this.#broken = true);
    socket.on("close", (hadError: boolean) => {
      this.#closed = true;
      this.events.onClose(hadError || this.#broken);
      this.events = ignoredEvents;
    });
  }

  get bufferedBytes(): number {
    return this.#unsentBytes;
  }

  write(chunk: Uint8Array): boolean {
    if (this.#closed || this.#ended) return true;
    const size = chunk.length;
    this.#unsentBytes += size;
    this.#socket.write(chunk, () => this.#sent(size));
    if (this.#unsentBytes < HIGH_WATER_BYTES) return true;
    this.#asked = true;
    return false;
  }

  end(): void {
    if (this.#closed || this.#ended) return;
    this.#ended = true;
    this.#socket.end();
  }

  close(): void {
    if (this.#closed) return;
    this.#ended = true;
    // The peer may never end its half: once ours is out, nothing more is read.
    this.#socket.end(() => this.#socket.destroy());
  }

  reset(): void {
    if (this.#closed) return;
    resetSocket(this.#socket);
  }

  pause(): void {
    if (!this.#closed) this.#socket.pause();
  }

  resume(): void {
    if (!this.#closed) this.#socket.resume();
  }

  #sent(size: number): void {
    this.#unsentBytes -= size;
    if (!this.#asked || this.#unsentBytes >= HIGH_WATER_BYTES / 2) return;
    this.#asked = false;
    this.events.onDrain();
  }
}

class Accepted implements AcceptedConnection {
  readonly remote: string;
  readonly #raw: net.Socket;
  #settled = false;

  constructor(raw: net.Socket) {
    this.#raw = raw;
    this.remote = remoteOf(raw);
    // Whatever breaks it before or during the handshake is told once, by the close.
    raw.on("error", () => {});
  }

  secure(context: ServerTls, handler: (outcome: HandshakeOutcome) => void): void {
    const { server, waiting } = context as NodeServerTls;
    const key = keyOf(this.#raw);
    const failed = (reason: string, gone = false) => {
      waiting.delete(key);
      if (this.#settled) return;
      this.#settled = true;
      handler({ kind: "failed", reason, gone });
    };
    this.#raw.once(
      "close",
      () => failed("the connection was closed before the handshake was done", true),
    );
    waiting.set(key, (socket, reason) => {
      if (!socket || this.#settled) {
        socket?.destroy();
        return failed(reason);
      }
      this.#settled = true;
      const connection = new NodeConnection(socket, this.remote);
      handler({ kind: "secured", connection, peer: peerOf(socket) });
    });
    server.emit("connection", this.#raw);
  }

  reset(): void {
    this.#settled = true;
    resetSocket(this.#raw);
  }
}

function dial({ address, tls: context, ticket: _ticket }: DialOptions, handler: DialHandler): Dial {
  let settled = false;
  let stage: "connect" | "handshake" = "connect";
  const where = address.kind === "unix"
    ? { path: address.path }
    : { host: address.host, port: address.port, noDelay: true };
  const raw = net.connect({ ...where, allowHalfOpen: true } as net.NetConnectOpts);
  let socket: net.Socket = raw;
  const failed = (reason: string) => {
    if (settled) return;
    settled = true;
    socket.destroy();
    raw.destroy();
    handler.onFailed(stage, reason);
  };
  const watch = (target: net.Socket) => {
    target.once("error", (error: Error) => failed(messageOf(error)));
    target.once("close", () => failed("the server closed the connection"));
  };
  const connected = (peer: PresentedPeer | undefined) => {
    if (settled) return;
    settled = true;
    handler.onConnected(new NodeConnection(socket, formatAddress(address)), peer);
  };
  watch(raw);
  raw.once("connect", () => {
    if (!context) return connected(undefined);
    stage = "handshake";
    const secured = tls.connect({
      ...(context as NodeClientTls).options,
      socket: raw,
      allowHalfOpen: true,
    } as tls.ConnectionOptions);
    socket = secured;
    watch(secured);
    secured.once("secureConnect", () => connected(peerOf(secured)));
  });
  return {
    cancel() {
      settled = true;
      socket.destroy();
      raw.destroy();
    },
  };
}

interface PeerCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: PeerCertificate;
}

function peerOf(socket: tls.TLSSocket): PresentedPeer {
  const shown = socket.getPeerCertificate(true) as PeerCertificate;
  const error = socket.authorizationError;
  return {
    accepted: socket.authorized && shown.raw !== undefined,
    reason: shown.raw ? (error ? messageOf(error) : "") : "no certificate was presented",
    leaf: shown.raw,
    chain() {
      const chain: Uint8Array[] = [];
      let last = shown;
      // A self-signed certificate is its own issuer; 32 is more than any sane chain.
      while (last.issuerCertificate && last.issuerCertificate !== last && chain.length < 32) {
        last = last.issuerCertificate;
        if (last.raw) chain.push(last.raw);
      }
      return chain;
    },
    version: socket.getProtocol() ?? "",
    resumed: socket.isSessionReused?.() ?? false,
  };
}

function resetSocket(socket: net.Socket): void {
  if (typeof socket.resetAndDestroy === "function") socket.resetAndDestroy();
  else socket.destroy();
}

function remoteOf(socket: net.Socket): string {
  const { remoteAddress, remotePort } = socket;
  if (!remoteAddress || !remotePort) return "unix";
  return formatAddress({ kind: "tcp", host: remoteAddress, port: remotePort });
}
