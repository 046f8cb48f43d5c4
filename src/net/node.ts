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
import { NodeConnection, onTransportOver, remoteOf, resetSocket } from "./node_connection.ts";
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

interface NodeServerTls extends ServerTls {
  readonly options: object;
  readonly suites: readonly string[];
}
interface NodeClientTls extends ClientTls {
  readonly options: tls.ConnectionOptions;
  readonly suites: readonly string[];
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
    // Its heap gives memory back by itself.
    trim() {},
    serverTls: (material): NodeServerTls => ({
      kind: "server",
      options: {
        isServer: true,
        secureContext: tls.createSecureContext(commonTls(material)),
        requestCert: true,
        rejectUnauthorized: true,
      },
      suites: material.cipherSuites,
    }),
    clientTls: (material, { serverName }): NodeClientTls => ({
      kind: "client",
      options: {
        ...commonTls(material),
        servername: serverName,
        rejectUnauthorized: true,
        // Mesh leaves carry a SPIFFE URI and no host name; identity is judged by our own check.
        checkServerIdentity: () => undefined,
      },
      suites: material.cipherSuites,
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
    // The runtime cannot let clients wait: those over the limit, here all, are closed at once.
    pause: () => void (server.maxConnections = -1),
    resume: () => void (server.maxConnections = Infinity),
    close: () => void server.close(),
  };
}

class Accepted implements AcceptedConnection {
  readonly remote: string;
  readonly #raw: net.Socket;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;

  constructor(raw: net.Socket) {
    this.#raw = raw;
    this.remote = remoteOf(raw);
    // Whatever breaks it before or during the handshake is told once, by what follows.
    raw.on("error", () => {});
  }

  /** Not through `tls.Server`, which does not say what it minded about a certificate. */
  secure(context: ServerTls, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    const raw = this.#raw;
    if (raw.destroyed) return this.#failed(GONE, true);
    const socket = new tls.TLSSocket(raw, (context as NodeServerTls).options);
    const failed = (error: Error) => this.#failed(messageOf(error), false);
    socket.on("_tlsError", failed);
    socket.on("error", failed);
    socket.on("close", () => this.#failed(GONE, true));
    const unwatch = onTransportOver(socket, () => {
      this.#failed(GONE, true);
      raw.destroy();
    });
    socket.on("secure", () => {
      if (!this.#handler) return void socket.destroy();
      const peer = peerOf(socket, verifyErrorOf(socket));
      const refusal = peer.reason || suiteRefused(socket, (context as NodeServerTls).suites);
      if (refusal !== "") {
        this.#failed(refusal, false);
        return void socket.destroy();
      }
      const settled = this.#handler;
      this.#handler = undefined;
      unwatch();
      const connection = new NodeConnection(socket, { remote: this.remote, raw });
      settled({ kind: "secured", connection, peer });
    });
  }

  reset(): void {
    this.#handler = undefined;
    resetSocket(this.#raw);
  }

  #failed(reason: string, gone: boolean): void {
    const handler = this.#handler;
    this.#handler = undefined;
    handler?.({ kind: "failed", reason, gone });
  }
}

const GONE = "the connection was closed before the handshake was done";

/** What the library minded about the peer's chain; "" where nothing. */
function verifyErrorOf(socket: tls.TLSSocket): string {
  const handle = (socket as { readonly _handle?: { verifyError?(): unknown } | null })._handle;
  // Nobody to ask means nobody has checked.
  if (typeof handle?.verifyError !== "function") return "the TLS library gave no verdict";
  const error = handle.verifyError();
  return error ? messageOf(error) : "";
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
    secured.once("secureConnect", () => {
      const { authorized, authorizationError } = secured;
      const complaint = messageOf(authorizationError || "the TLS library gave no verdict");
      const refusal = suiteRefused(secured, (context as NodeClientTls).suites);
      if (refusal !== "") return failed(refusal);
      connected(peerOf(secured, authorized ? "" : complaint));
    });
  });
  return {
    cancel() {
      settled = true;
      socket.destroy();
      raw.destroy();
    },
  };
}

/** Deno offers and takes all suites it knows, whatever it is told; those not asked for end here. */
function suiteRefused(socket: tls.TLSSocket, suites: readonly string[]): string {
  if (suites.length === 0 || socket.getProtocol() === "TLSv1.3") return "";
  const { name } = socket.getCipher();
  return suites.includes(name) ? "" : `the cipher suite ${name} is not among those configured`;
}

interface PeerCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: PeerCertificate;
}

function peerOf(socket: tls.TLSSocket, complaint: string): PresentedPeer {
  const shown = socket.getPeerCertificate(true) as PeerCertificate;
  const reason = shown.raw ? complaint : "no certificate was presented";
  return {
    accepted: reason === "",
    reason,
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
