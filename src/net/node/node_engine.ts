/** The port on `node:net` and `node:tls`, for Deno: listening, handshakes, dialling. @module */

import * as net from "node:net";
import * as tls from "node:tls";
import { formatAddress, messageOf } from "../../base/mod.ts";
import { clearStaleSocket, listenError, UnixSocketFile } from "../listen.ts";
import { NodeAccepted, type NodeTls } from "./node_accepted.ts";
import { NodeConnection, peerOf, suiteRefused } from "./node_connection.ts";
import { needsRoots, tlsFault } from "../tls_checks.ts";
import {
  type ClientTls,
  DEFAULT_CIPHER_SUITES,
  type Dial,
  type DialHandler,
  type DialOptions,
  type Engine,
  type Listener,
  type ListenOptions,
  type PresentedPeer,
  remoteOf,
  type ServerTls,
  type TlsMaterial,
} from "../port.ts";
import { connectWords, tlsWords } from "../error_words.ts";

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
      listen(options, (socket) => onAccepted(new NodeAccepted(socket))),
    dial,
    // The runtime's heap returns memory by itself.
    trim() {},
    collect() {},
    serverTls: (material): ServerTls & NodeTls => ({
      kind: "server",
      options: {
        isServer: true,
        secureContext: tls.createSecureContext(commonTls(material)),
        ...offered(material),
        requestCert: material.peerCheck !== "ignored",
        rejectUnauthorized: material.peerCheck === "checked",
      },
      peerCheck: material.peerCheck,
      suites: material.cipherSuites,
    }),
    tlsFault,
    clientTls: (material, { serverName }): ClientTls & NodeTls => ({
      kind: "client",
      options: {
        ...commonTls(material),
        ...offered(material),
        servername: serverName,
        rejectUnauthorized: material.peerCheck === "checked",
        // Mesh leaves carry a SPIFFE URI and no host name; identity is judged by our own check.
        checkServerIdentity: () => undefined,
      },
      peerCheck: material.peerCheck,
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
    ...(material.certPem && { cert: material.certPem, key: material.keyPem }),
    ...(needsRoots(material) && { ca: [...material.rootPems] }),
    minVersion: material.minVersion,
    maxVersion: material.maxVersion,
    // The runtime takes its TLS 1.3 suites from the same list.
    ciphers: ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", ...suites].join(":"),
  };
}

function offered({ protocols = [] }: TlsMaterial): { readonly ALPNProtocols?: string[] } {
  return protocols.length > 0 ? { ALPNProtocols: [...protocols] } : {};
}

async function listen(
  { address, reusePort }: ListenOptions,
  onSocket: (socket: net.Socket) => void,
): Promise<Listener> {
  if (address.kind === "unix") await clearStaleSocket(address.path);
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, onSocket);
  let file: UnixSocketFile | undefined;
  try {
    if (address.kind === "unix") file = new UnixSocketFile(address);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      const ready = () => {
        server.off("error", reject);
        resolve();
      };
      if (file) server.listen(file.path, ready);
      else if (address.kind === "tcp") {
        server.listen({ host: address.host, port: address.port, reusePort } as object, ready);
      }
    });
    file?.publish();
  } catch (error) {
    file?.discard();
    server.close();
    throw listenError(address, error);
  }
  const bound = server.address();
  return {
    address: address.kind === "tcp" && typeof bound === "object" && bound
      ? { ...address, port: bound.port }
      : address,
    keepsWaiting: false,
    // The runtime cannot let clients wait: those over the limit, here all, are closed at once.
    pause: () => void (server.maxConnections = -1),
    resume: () => void (server.maxConnections = Infinity),
    copies: () => [],
    close() {
      server.close();
      file?.remove();
    },
  };
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
    handler.onFailed(stage, reason);
  };
  const watch = (target: net.Socket) => {
    target.once("error", (error: Error) => {
      failed(stage === "connect" ? connectWords(error) : tlsWords(messageOf(error)));
    });
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
    let secured: tls.TLSSocket;
    try {
      secured = tls.connect({
        ...(context as ClientTls & NodeTls).options,
        socket: raw,
        allowHalfOpen: true,
      } as tls.ConnectionOptions);
    } catch (error) {
      // Settings that the library does not take.
      return failed(messageOf(error));
    }
    socket = secured;
    watch(secured);
    secured.once("secureConnect", () => {
      const { suites, peerCheck } = context as ClientTls & NodeTls;
      const { authorized, authorizationError } = secured;
      const complaint = messageOf(authorizationError || "the TLS library gave no verdict");
      const refusal = suiteRefused(secured, suites);
      if (refusal !== "") return failed(refusal);
      connected(peerOf(secured, peerCheck, authorized ? "" : complaint));
    });
  });
  return {
    cancel() {
      settled = true;
      socket.destroy();
    },
  };
}
