/**
 * The owner of a native socket, which gets its events. The callbacks given to Bun are the same few
 * functions for all sockets; each looks up the owner in the socket's `data`, which is replaced as the
 * connection moves from its handshake to its stream. So a connection costs no closure.
 *
 * @module
 */

import type { BunSocket, BunSocketHandler } from "./bun_types.ts";

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

/** For connections that we dial. */
export const DIAL_HANDLER = {
  ...STREAM_HANDLER,
  open: (socket: BunSocket) => ownerOf(socket)?.opened?.(socket),
  connectError: (socket: BunSocket, error: Error) => ownerOf(socket)?.connectFailed?.(error),
} satisfies BunSocketHandler;
