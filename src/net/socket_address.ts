/**
 * Where a socket's two ends are, in words that every log line uses.
 *
 * @module
 */

import { formatAddress } from "../base/mod.ts";

/** As both runtimes know it: no address is that of a unix socket, or of a closed one. */
interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** `127.0.0.1:40312`, or `unix`. With Bun each look at an address or port is a system call. */
export function remoteOf(socket: Ends): string {
  return wordsOf(socket.remoteAddress, socket.remotePort);
}

/** The same of our own end. */
export function localOf(socket: Ends): string {
  return wordsOf(socket.localAddress, socket.localPort);
}

function wordsOf(host: string | undefined, port = 0): string {
  return host ? formatAddress({ kind: "tcp", host, port }) : "unix";
}
