/**
 * The port on Bun's native sockets. Credentials are chosen per connection at the TLS upgrade, so a
 * rotation needs no new listener. With `node.ts` the only file that names a runtime.
 *
 * @module
 */

import { chmodSync } from "node:fs";
import { formatAddress, messageOf } from "../base/mod.ts";
import type {
  BunListener,
  BunRuntime,
  BunSocket,
  BunSocketHandler,
  BunTlsOptions,
} from "./bun_types.ts";
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
import { presentedCertificates } from "./session.ts";

interface BunServerTls extends ServerTls {
  readonly options: BunTlsOptions;
}
interface BunClientTls extends ClientTls {
  readonly options: BunTlsOptions;
}

const TLS_VERSION = { "TLSv1.2": 0x0303, "TLSv1.3": 0x0304 } as const;

/** Seconds of silence before the kernel probes a connection. */
const KEEP_ALIVE_MS = 15_000;

/** The engine for this process, or undefined where it does not run on Bun. */
export function bunEngine(): Engine | undefined {
  const bun = (globalThis as { Bun?: BunRuntime }).Bun;
  return bun && createBunEngine(bun);
}

function createBunEngine(bun: BunRuntime): Engine {
  return {
    name: `bun ${bun.version}`,
    listen: (options, onConnection) =>
      listen(bun, options, {
        ...STREAM_HANDLER,
        open(socket) {
          const connection = new BunConnection(socket);
          socket.data = connection;
          prepare(socket);
          onConnection(connection);
        },
      }),
    listenSecure: (options, onAccepted) =>
      listen(bun, options, {
        open(socket) {
          prepare(socket);
          onAccepted(new Accepted(socket));
        },
        // No `data`: it would see the ciphertext. A drain handler satisfies the API.
        drain() {},
      }),
    dial: (options, handler) => dial(bun, options, handler),
    serverTls: (material): BunServerTls => ({
      kind: "server",
      options: {
        ...commonTls(material),
        requestCert: true,
        rejectUnauthorized: true,
      },
    }),
    clientTls: (material, { serverName }): BunClientTls => ({
      kind: "client",
      options: {
        ...commonTls(material),
        serverName,
        // Bun insists on the host name when it enforces; mesh leaves carry none. The chain's verdict
        // is read in the handshake callback instead, and nothing is sent before it was.
        rejectUnauthorized: false,
      },
    }),
  };
}

function commonTls(material: TlsMaterial): BunTlsOptions {
  const suites = material.cipherSuites.length ? material.cipherSuites : DEFAULT_CIPHER_SUITES;
  return {
    cert: material.certPem,
    key: material.keyPem,
    ca: material.rootPems.join("\n"),
    ciphers: suites.join(":"),
    minVersion: TLS_VERSION[material.minVersion],
    maxVersion: TLS_VERSION[material.maxVersion],
  };
}

function prepare(socket: BunSocket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}

async function listen(
  bun: BunRuntime,
  { address, reusePort }: ListenOptions,
  socket: BunSocketHandler,
): Promise<Listener> {
  if (address.kind === "unix") await clearStaleSocket(address.path);
  let listener: BunListener;
  try {
    listener = address.kind === "unix"
      ? bun.listen({ unix: address.path, allowHalfOpen: true, socket })
      : bun.listen({
        hostname: address.host,
        port: address.port,
        reusePort,
        exclusive: !reusePort,
        allowHalfOpen: true,
        socket,
      });
  } catch (error) {
    throw listenError(address, error);
  }
  if (address.kind === "unix" && address.mode !== undefined) chmodSync(address.path, address.mode);
  return {
    address: address.kind === "unix" ? address : { ...address, port: listener.port },
    close: () => listener.stop(false),
  };
}

/** Shared by all plain streams and, with a handshake in front, by TLS ones. */
const STREAM_HANDLER = {
  data(socket: BunSocket, chunk: Uint8Array) {
    socket.data.events.onData(chunk);
  },
  drain(socket: BunSocket) {
    socket.data.drained();
  },
  end(socket: BunSocket) {
    socket.data.peerEnded();
  },
  close(socket: BunSocket, error?: Error) {
    socket.data.closed(error !== undefined && error !== null);
  },
  error(socket: BunSocket) {
    // A handler of ours threw, or the socket broke; either way nothing more can be trusted to pass.
    socket.data.reset();
  },
} satisfies BunSocketHandler;

class BunConnection implements Connection {
  events: ConnectionEvents = ignoredEvents;
  readonly #socket: BunSocket;
  #remote: string | undefined;
  #unsent: Uint8Array[] | undefined;
  #ending: "half" | "both" | undefined;
  #peerEnded = false;
  #closed = false;

  constructor(socket: BunSocket, remote?: string) {
    this.#socket = socket;
    this.#remote = remote;
  }

  get remote(): string {
    return this.#remote ??= remoteOf(this.#socket);
  }

  get bufferedBytes(): number {
    return this.#unsent?.reduce((sum, chunk) => sum + chunk.length, 0) ?? 0;
  }

  write(chunk: Uint8Array): boolean {
    if (this.#unsent === undefined) {
      const sent = this.#socket.write(chunk);
      if (sent === chunk.length) return true;
      // Gone already: its close follows, and nothing can be kept for it.
      if (sent < 0 || this.#closed) return true;
      chunk = chunk.subarray(sent);
      this.#unsent = [];
    }
    this.#unsent.push(chunk);
    return false;
  }

  end(): void {
    if (this.#closed || this.#ending) return;
    this.#ending = "half";
    if (!this.#unsent) this.#finish();
  }

  close(): void {
    if (this.#closed) return;
    this.#ending = "both";
    if (!this.#unsent) this.#finish();
  }

  reset(): void {
    if (this.#closed) return;
    this.#unsent = undefined;
    this.#socket.terminate();
  }

  pause(): void {
    if (!this.#closed) this.#socket.pause();
  }

  resume(): void {
    if (!this.#closed) this.#socket.resume();
  }

  drained(): void {
    const unsent = this.#unsent;
    if (!unsent) return;
    while (unsent.length > 0) {
      const chunk = unsent[0] as Uint8Array;
      const sent = this.#socket.write(chunk);
      if (sent < chunk.length) {
        if (sent > 0) unsent[0] = chunk.subarray(sent);
        return;
      }
      unsent.shift();
    }
    this.#unsent = undefined;
    if (this.#ending) this.#finish();
    else this.events.onDrain();
  }

  peerEnded(): void {
    if (this.#peerEnded) return;
    this.#peerEnded = true;
    this.events.onEnd();
  }

  closed(reset: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    const broken = reset || this.#unsent !== undefined;
    this.#unsent = undefined;
    this.events.onClose(broken);
    this.events = ignoredEvents;
  }

  #finish(): void {
    if (this.#ending === "both" || this.#peerEnded) this.#socket.end();
    else this.#socket.shutdown();
  }
}

const GONE = "the connection was closed before the handshake was done";

/** A listener's fresh TCP connection on its way through the handshake. */
class Accepted implements AcceptedConnection {
  readonly remote: string;
  readonly #raw: BunSocket;
  #settled = false;

  constructor(raw: BunSocket) {
    this.#raw = raw;
    this.remote = remoteOf(raw);
  }

  secure(tls: ServerTls, handler: (outcome: HandshakeOutcome) => void): void {
    const failed = (reason: string, gone = false) => {
      if (this.#settled) return;
      this.#settled = true;
      handler({ kind: "failed", reason, gone });
    };
    try {
      this.#raw.upgradeTLS({
        isServer: true,
        tls: (tls as BunServerTls).options,
        socket: {
          ...STREAM_HANDLER,
          handshake: (socket, success, error) => {
            if (this.#settled) return;
            if (!success) return failed(messageOf(error), error?.code === "ECONNRESET");
            this.#settled = true;
            const connection = new BunConnection(socket, this.remote);
            socket.data = connection;
            handler({ kind: "secured", connection, peer: peerOf(socket, error) });
          },
          data: (socket, chunk) => socket.data?.events.onData(chunk),
          drain: (socket) => socket.data?.drained(),
          end: (socket) => {
            if (socket.data) socket.data.peerEnded();
            else failed(GONE, true);
          },
          close: (socket, error) => {
            if (socket.data) socket.data.closed(error !== undefined && error !== null);
            else failed(error ? messageOf(error) : GONE, true);
          },
          error: (socket, error) => {
            if (socket.data) socket.data.reset();
            else failed(messageOf(error));
          },
        },
      });
    } catch (error) {
      failed(messageOf(error));
    }
  }

  reset(): void {
    this.#settled = true;
    this.#raw.terminate();
  }
}

function dial(bun: BunRuntime, options: DialOptions, handler: DialHandler): Dial {
  const { address, tls, ticket } = options;
  let settled = false;
  let opened: BunSocket | undefined;
  const failed = (stage: "connect" | "handshake", reason: string) => {
    if (settled) return;
    settled = true;
    handler.onFailed(stage, reason);
  };
  const connected = (socket: BunSocket, peer: PresentedPeer | undefined) => {
    settled = true;
    const connection = new BunConnection(socket, formatAddress(address));
    socket.data = connection;
    handler.onConnected(connection, peer);
  };
  const socket: BunSocketHandler = {
    open(socket) {
      opened = socket;
      if (settled) return socket.terminate();
      if (address.kind === "tcp") prepare(socket);
      if (!tls) return connected(socket, undefined);
      if (ticket) socket.setSession(ticket);
    },
    data: (socket, chunk) => socket.data?.events.onData(chunk),
    drain: (socket) => socket.data?.drained(),
    end(socket) {
      if (socket.data) socket.data.peerEnded();
      else failed("handshake", "the server closed the connection");
    },
    close(socket, error) {
      if (socket.data) socket.data.closed(error !== undefined && error !== null);
      else failed("handshake", error ? messageOf(error) : "the server closed the connection");
    },
    error(socket, error) {
      if (socket.data) socket.data.reset();
      else failed("handshake", messageOf(error));
    },
    connectError: (_socket, error) => failed("connect", messageOf(error)),
  };
  if (tls) {
    socket.handshake = (socket, success, error) => {
      if (settled) return;
      const peer = peerOf(socket, success ? undefined : error);
      // The peer's certificate is there whenever the handshake itself went through.
      if (!success && peer.leaf === undefined) return failed("handshake", messageOf(error));
      connected(socket, peer);
    };
    if (handler.onTicket) {
      socket.session = (_socket, fresh) => handler.onTicket?.(fresh);
    }
  }
  bun.connect({
    ...(address.kind === "unix"
      ? { unix: address.path }
      : { hostname: address.host, port: address.port }),
    allowHalfOpen: true,
    ...(tls && { tls: (tls as BunClientTls).options }),
    socket,
  }).catch((error: unknown) => failed("connect", messageOf(error)));
  return {
    cancel() {
      settled = true;
      opened?.terminate();
    },
  };
}

/** Bun checks a host name where Consul has none; any other complaint is about the chain. */
const HOST_NAME_ERROR = "ERR_TLS_CERT_ALTNAME_INVALID";

function peerOf(socket: BunSocket, error: { code?: string } | null | undefined): PresentedPeer {
  const leaf = socket.getPeerX509Certificate()?.raw;
  const complaint = error && error.code !== HOST_NAME_ERROR ? messageOf(error) : "";
  return {
    accepted: leaf !== undefined && complaint === "",
    reason: leaf === undefined ? "no certificate was presented" : complaint,
    leaf,
    chain() {
      const session = socket.getSession();
      return session ? presentedCertificates(session) : [];
    },
    get version() {
      return socket.getTLSVersion();
    },
    get resumed() {
      return socket.isSessionReused();
    },
  };
}

function remoteOf(socket: BunSocket): string {
  const host = socket.remoteAddress;
  if (!host || !socket.remotePort) return "unix";
  return formatAddress({ kind: "tcp", host, port: socket.remotePort });
}
