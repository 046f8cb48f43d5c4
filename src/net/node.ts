/**
 * The port on `node:net` and `node:tls`, for Deno: listening, shaking hands and dialling. What happens
 * on an open stream is in `node_connection.ts`.
 *
 * @module
 */

import { chmodSync } from "node:fs";
import * as net from "node:net";
import * as tls from "node:tls";
import { formatAddress, messageOf } from "../base/mod.ts";
import { clearStaleSocket, listenError } from "./listen.ts";
import { NodeConnection, remoteOf, resetSocket } from "./node_connection.ts";
import {
  type AcceptedConnection,
  type ClientTls,
  DEFAULT_CIPHER_SUITES,
  type Dial,
  type DialHandler,
  type DialOptions,
  type Engine,
  type HandshakeOutcome,
  type Listener,
  type ListenOptions,
  type PresentedPeer,
  type ServerTls,
  type TlsMaterial,
} from "./port.ts";

type Waiter = (socket: tls.TLSSocket | undefined, reason: string) => void;

/** A server that never listens: it shakes hands on sockets handed to it. */
interface NodeServerTls extends ServerTls {
  readonly server: tls.Server;
  /** Who waits for the handshake on which raw socket. */
  readonly waiting: WeakMap<net.Socket, Waiter>;
}
interface NodeClientTls extends ClientTls {
  readonly options: tls.ConnectionOptions;
}

/** The engine for any runtime with Node's networking modules. */
export function nodeEngine(): Engine {
  return {
    name: runtimeName(),
    listen: (options, onConnection) =>
      listen(
        options,
        (socket) => onConnection(new NodeConnection(socket, { remote: remoteOf(socket) })),
      ),
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
  const waiting: NodeServerTls["waiting"] = new WeakMap();
  const settle = (socket: tls.TLSSocket, secured: boolean, reason: string) => {
    const raw = rawOf(socket);
    const waiter = raw && waiting.get(raw);
    if (!waiter) return void socket.destroy();
    waiting.delete(raw);
    waiter(secured ? socket : undefined, reason);
    // The alert that says why is with the kernel already.
    if (!secured) socket.destroy();
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

/** The socket below; both runtimes keep it under this name. */
function rawOf(socket: tls.TLSSocket): net.Socket | undefined {
  return (socket as { readonly _parent?: net.Socket })._parent;
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
    const raw = this.#raw;
    const failed = (reason: string, gone = false) => {
      waiting.delete(raw);
      if (this.#settled) return;
      this.#settled = true;
      handler({ kind: "failed", reason, gone });
    };
    raw.once(
      "close",
      () =>
        failed(
          "the connection was closed before the handshake was done",
          // The runtime closes on a bad certificate without saying so; a mere probe sends nothing.
          this.#raw.bytesRead === 0,
        ),
    );
    waiting.set(raw, (socket, reason) => {
      if (!socket || this.#settled) {
        socket?.destroy();
        return failed(reason);
      }
      this.#settled = true;
      const connection = new NodeConnection(socket, { remote: this.remote, raw });
      handler({ kind: "secured", connection, peer: peerOf(socket) });
    });
    server.emit("connection", raw);
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
    const remote = formatAddress(address);
    handler.onConnected(new NodeConnection(socket, { remote, raw }), peer);
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
