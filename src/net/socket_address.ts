/**
 * The addresses of a socket's two ends, in the form of all log lines.
 *
 * @module
 */

import { formatAddress } from "../base/mod.ts";

/** Both runtimes' names for them; a unix socket and a closed one have no address. */
interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** `127.0.0.1:40312`, or `unix`. On Bun each read of an address or port is a system call. */
export function remoteOf(socket: Ends): string {
  return wordsOf(socket.remoteAddress, socket.remotePort);
}

/** The same for our own end. */
export function localOf(socket: Ends): string {
  return wordsOf(socket.localAddress, socket.localPort);
}

function wordsOf(host: string | undefined, port = 0): string {
  return host ? formatAddress({ kind: "tcp", host, port }) : "unix";
}
