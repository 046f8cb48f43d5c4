/**
 * The port on Bun's native sockets. Credentials are chosen per connection at the TLS upgrade, so a
 * rotation needs no new listener. Only this file and `node_engine.ts` name a runtime.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { BunConnection, keepAlive } from "./bun_connection.ts";
import { BunAccepted, type BunTls } from "./bun_accepted.ts";
import { BunDial } from "./bun_dial.ts";
import { JoinedListener, NativeListener } from "./bun_listener.ts";
import { releaseCodePages } from "../linux/code_pages.ts";
import {
  type BunRuntime,
  type BunSocketHandler,
  type BunTlsOptions,
  DIAL_HANDLER,
  STREAM_HANDLER,
} from "./bun_sockets.ts";
import { clearStaleSocket } from "../listen.ts";
import { needsRoots, tlsFault } from "../tls_checks.ts";
import {
  type AcceptedConnection,
  type ClientTls,
  DEFAULT_CIPHER_SUITES,
  type Dial,
  type DialHandler,
  type DialOptions,
  type Engine,
  type Listener,
  type ListenOptions,
  type ServerTls,
  type TlsMaterial,
} from "../port.ts";

/** Clients accepted in a row. Bun serves five TLS handshakes in a turn. */
const PLAIN_ROW = 64;
const SECURE_ROW = 4;
const TLS_VERSION = { "TLSv1.2": 0x0303, "TLSv1.3": 0x0304 } as const;

/** The engine for this process; undefined: it does not run on Bun. */
export function bunEngine(): Engine | undefined {
  const bun = (globalThis as { Bun?: BunRuntime }).Bun;
  return bun && createBunEngine(bun);
}

type BunListening = NativeListener | JoinedListener;

function createBunEngine(bun: BunRuntime): Engine {
  return {
    name: `bun ${bun.version}`,
    listen: (options, onConnection) =>
      listen(bun, options, {
        longestRow: PLAIN_ROW,
        socket: {
          ...STREAM_HANDLER,
          open(socket) {
            const connection = new BunConnection(socket);
            keepAlive(socket, connection.remote);
            onConnection(connection);
          },
        },
      }),
    listenSecure: (options, onAccepted) => listenSecure(bun, options, onAccepted),
    dial: (options, handler) => dial(bun, options, handler),
    trim(options) {
      bun.gc(true);
      bun.shrink();
      if (options?.shared) releaseCodePages();
    },
    collect: () => bun.gc(true),
    serverTls: (material): ServerTls & BunTls => ({
      kind: "server",
      peerCheck: material.peerCheck,
      options: {
        ...commonTls(material),
        requestCert: material.peerCheck !== "ignored",
        rejectUnauthorized: material.peerCheck === "checked",
      },
    }),
    tlsFault,
    clientTls: (material, { serverName }): ClientTls & BunTls => ({
      kind: "client",
      peerCheck: material.peerCheck,
      options: {
        ...commonTls(material),
        serverName,
        // Bun requires the host name when it enforces; mesh leaves carry none. The chain's verdict is
        // read in the handshake callback instead, and nothing is sent before that.
        rejectUnauthorized: false,
      },
    }),
  };
}

/**
 * Bun shares one context, with its ticket keys, between equal options. A session that was made under one
 * set of roots must not be resumed under another, so roots that Bun does not get make the options differ
 * all the same: their hash is the passphrase, which an unencrypted key ignores.
 */
function commonTls(material: TlsMaterial): BunTlsOptions {
  const roots = material.rootPems.join("\n");
  const suites = material.cipherSuites.length ? material.cipherSuites : DEFAULT_CIPHER_SUITES;
  const { protocols = [] } = material;
  return {
    ...(material.certPem && { cert: material.certPem, key: material.keyPem }),
    ...(needsRoots(material)
      ? { ca: roots }
      : { passphrase: createHash("sha256").update(roots).digest("hex") }),
    ciphers: suites.join(":"),
    minVersion: TLS_VERSION[material.minVersion],
    maxVersion: TLS_VERSION[material.maxVersion],
    // Names as in RFC 7301 3.1, without the length of the list.
    ...(protocols.length > 0 && {
      ALPNProtocols: Buffer.concat(
        protocols.flatMap((name) => [Buffer.of(name.length), Buffer.from(name)]),
      ),
    }),
  };
}

async function listenSecure(
  bun: BunRuntime,
  options: ListenOptions,
  onAccepted: (accepted: AcceptedConnection) => void,
): Promise<Listener> {
  let listener: BunListening | undefined;
  const onAwaited = () => listener?.defer();
  const handler: BunSocketHandler = {
    open(socket) {
      const accepted = new BunAccepted(socket, onAwaited);
      keepAlive(socket, accepted.remote);
      onAccepted(accepted);
      accepted.handedOut();
    },
    // No `data`: it would get the ciphertext. A drain handler satisfies the API.
    drain() {},
  };
  // Only a client whose first bytes are awaited is held as a plain socket and can close as one: other
  // connections do not pay for that callback.
  return listener = await listen(bun, options, {
    longestRow: SECURE_ROW,
    socket: handler,
    deferredSocket: {
      ...handler,
      close: (socket, error) => (socket.data as BunAccepted | undefined)?.rawClosed(error),
    },
  });
}

async function listen(
  bun: BunRuntime,
  options: ListenOptions,
  clients: ConstructorParameters<typeof NativeListener>[2],
): Promise<BunListening> {
  const { address, descriptors = [] } = options;
  if (address.kind === "unix" && descriptors.length === 0) await clearStaleSocket(address.path);
  const first = new NativeListener(bun, options, clients);
  if (descriptors.length < 2) return first;
  const others = descriptors.slice(1)
    .map((fd) => new NativeListener(bun, { ...options, descriptors: [fd] }, clients));
  return new JoinedListener(first, others);
}

function dial(bun: BunRuntime, options: DialOptions, handler: DialHandler): Dial {
  const { address, tls, ticket } = options;
  const { options: tlsOptions, peerCheck } = (tls as ClientTls & BunTls | undefined) ?? {};
  const dialling = new BunDial({ address, peerCheck, ticket }, handler);
  const { onTicket } = handler;
  // Bun throws faults of TLS settings at once; a dial reports them later, like every failure.
  const connect = async () =>
    await bun.connect({
      ...(address.kind === "unix"
        ? { unix: address.path }
        : { hostname: address.host, port: address.port }),
      allowHalfOpen: true,
      ...(tlsOptions && { tls: tlsOptions }),
      data: dialling,
      socket: onTicket
        ? { ...DIAL_HANDLER, session: (_socket, ticket) => onTicket.call(handler, ticket) }
        : DIAL_HANDLER,
    });
  connect().catch((error: unknown) => dialling.connectFailed(error));
  return dialling;
}
