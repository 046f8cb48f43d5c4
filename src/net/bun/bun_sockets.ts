// deno-lint-ignore-file no-explicit-any -- `data` is any value that the engine put there
/**
 * The part of Bun's socket API that the engine uses, as probed on the pinned version (Bun's own type package
 * would redefine the web's globals for everyone), and the owners of sockets. The callbacks given to Bun are
 * the same few functions for all sockets; each looks up the owner in the socket's `data`, which is replaced
 * as the connection moves from its handshake to its stream. So a connection costs no closure.
 * @module
 */

export interface BunTlsOptions {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
  /** Passphrase of an encrypted key. */
  readonly passphrase?: string;
  readonly ciphers: string;
  readonly minVersion: number;
  readonly maxVersion: number;
  readonly serverName?: string;
  readonly requestCert?: boolean;
  readonly rejectUnauthorized?: boolean;
  /** Each name after its length; Bun refuses a list, and a text matches nothing. */
  readonly ALPNProtocols?: Uint8Array;
}

export interface BunSocket {
  data: any;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  readonly localPort: number | undefined;
  readonly fd: number;
  readonly alpnProtocol: string | false;
  /** Number of bytes taken; less than given if the kernel is full, -1 if closed. */
  write(chunk: Uint8Array, offset: number, length: number): number;
  end(): void;
  shutdown(): void;
  terminate(): void;
  pause(): void;
  resume(): void;
  setKeepAlive(on: boolean, initialDelayMs: number): void;
  upgradeTLS(options: {
    readonly isServer: true;
    readonly tls: BunTlsOptions;
    readonly data: unknown;
    readonly socket: BunSocketHandler;
  }): readonly [raw: BunSocket, secured: BunSocket];
  setSession(ticket: Uint8Array): void;
  getSession(): Uint8Array | undefined;
  isSessionReused(): boolean;
  getTLSVersion(): string;
  getServername(): string | undefined;
  getPeerX509Certificate(): { readonly raw: Uint8Array } | undefined;
}

export interface BunSocketHandler {
  open?(socket: BunSocket): void;
  data?(socket: BunSocket, chunk: Uint8Array): void;
  drain?(socket: BunSocket): void;
  end?(socket: BunSocket): void;
  close?(socket: BunSocket, error?: Error): void;
  error?(socket: BunSocket, error: Error): void;
  connectError?(socket: BunSocket, error: Error): void;
  handshake?(socket: BunSocket, success: boolean, error: (Error & { code?: string }) | null): void;
  session?(socket: BunSocket, ticket: Uint8Array): void;
}

export interface BunListener {
  readonly port: number;
  readonly fd: number;
  stop(closeConnections: boolean): void;
  /** Other callbacks, for open sockets as well. */
  reload(options: { readonly socket: BunSocketHandler }): void;
}

export interface BunRuntime {
  readonly version: string;
  gc(synchronously: boolean): void;
  shrink(): void;
  listen(
    options:
      & { readonly allowHalfOpen: boolean; readonly socket: BunSocketHandler }
      & (
        | { readonly unix: string }
        | { readonly fd: number }
        | {
          readonly hostname: string;
          readonly port: number;
          readonly reusePort: boolean;
          readonly exclusive: boolean;
        }
      ),
  ): BunListener;
  connect(
    options: {
      readonly allowHalfOpen: boolean;
      readonly tls?: BunTlsOptions;
      readonly data: unknown;
      readonly socket: BunSocketHandler;
    } & ({ readonly unix: string } | { readonly hostname: string; readonly port: number }),
  ): Promise<unknown>;
}

export interface SocketOwner {
  received(chunk: Uint8Array): void;
  drained(): void;
  peerEnded(): void;
  closed(error: Error | undefined): void;
  broke(error: Error): void;
  /** Only while a handshake is under way. */
  handshaken?(socket: BunSocket, success: boolean, error: BunTlsError | null): void;
  /** Only for a connection that we dial. */
  opened?(socket: BunSocket): void;
  connectFailed?(error: Error): void;
}

export type BunTlsError = Error & { code?: string };

/** Number of events of open sockets so far: a listener sees whether any came between two accepts. */
export const served = { count: 0 };

function ownerOf(socket: BunSocket): SocketOwner | undefined {
  served.count++;
  return socket.data;
}

/** For streams, and for handshakes before them. */
export const STREAM_HANDLER = {
  data: (socket: BunSocket, chunk: Uint8Array) => ownerOf(socket)?.received(chunk),
  drain: (socket: BunSocket) => ownerOf(socket)?.drained(),
  end: (socket: BunSocket) => ownerOf(socket)?.peerEnded(),
  close: (socket: BunSocket, error?: Error | null) => ownerOf(socket)?.closed(error ?? undefined),
  error: (socket: BunSocket, error: Error) => ownerOf(socket)?.broke(error),
  handshake: (socket: BunSocket, success: boolean, error: BunTlsError | null) =>
    ownerOf(socket)?.handshaken?.(socket, success, error),
} satisfies BunSocketHandler;

export const DIAL_HANDLER = {
  ...STREAM_HANDLER,
  open: (socket: BunSocket) => ownerOf(socket)?.opened?.(socket),
  connectError: (socket: BunSocket, error: Error) => ownerOf(socket)?.connectFailed?.(error),
} satisfies BunSocketHandler;
