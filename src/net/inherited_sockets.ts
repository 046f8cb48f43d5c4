/** Listening sockets that this process did not open: another process, or systemd, has handed them over. @module */

import { closeDescriptor } from "./linux/descriptors.ts";

export interface ListeningSocket {
  /** As configured: `127.0.0.1:8080`, `unix:///run/x.sock`. */
  readonly address: string;
  readonly fd: number;
}

/** Sockets for one data path, until a listener takes them. */
export class InheritedSockets {
  /** Listeners wait until the process before has stopped accepting. */
  readonly held: boolean;
  readonly #sockets: ListeningSocket[];

  constructor(sockets: readonly ListeningSocket[], { held }: { readonly held: boolean }) {
    this.#sockets = [...sockets];
    this.held = held;
  }

  /** The descriptors for this address; the caller owns them. */
  take(address: string): readonly number[] {
    const taken = this.#sockets.filter((socket) => socket.address === address);
    for (const socket of taken) this.#sockets.splice(this.#sockets.indexOf(socket), 1);
    return taken.map(({ fd }) => fd);
  }

  /** Closes what no listener took. */
  close(): void {
    for (const { fd } of this.#sockets.splice(0)) closeDescriptor(fd);
  }
}

/**
 * Shares sockets out among data paths, so that each has at least one for each address, and none is left:
 * clients wait at each of them. `copy` duplicates a descriptor.
 */
export function shareOut(
  sockets: readonly ListeningSocket[],
  workers: number,
  copy: (fd: number) => number | undefined,
): readonly (readonly ListeningSocket[])[] {
  const shares = Array.from({ length: workers }, (): ListeningSocket[] => []);
  for (const [address, all] of Map.groupBy(sockets, (socket) => socket.address)) {
    for (const [at, { fd }] of all.entries()) shares[at % workers]?.push({ address, fd });
    for (let at = all.length; at < workers; at++) {
      const fd = copy(all[at % all.length]?.fd ?? -1);
      if (fd !== undefined) shares[at]?.push({ address, fd });
    }
  }
  return shares;
}
