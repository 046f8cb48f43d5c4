/** Listening sockets that this process did not open: another process, or systemd, has handed them over. @module */

import { closeDescriptor, duplicate } from "./linux/descriptors.ts";

export interface ListeningSocket {
  /** As configured: `127.0.0.1:8080`, `unix:///run/x.sock`. */
  readonly address: string;
  readonly fd: number;
}

/** Sockets for one data path or for servers, until a listener takes them. */
export class InheritedSockets {
  /** Listeners wait until the process before has stopped accepting. */
  readonly held: boolean;
  readonly #sockets: ListeningSocket[];
  readonly #kept: readonly ListeningSocket[];

  /** `kept`: another program holds these addresses for this process, so each taker gets a copy. */
  constructor(
    sockets: readonly ListeningSocket[],
    { held, kept = [] }: { readonly held: boolean; readonly kept?: readonly ListeningSocket[] },
  ) {
    this.#sockets = [...sockets];
    this.#kept = kept;
    this.held = held;
  }

  /** The descriptors for this address; the caller owns them. */
  take(address: string): readonly number[] {
    const taken = this.#sockets.filter((socket) => socket.address === address);
    for (const socket of taken) this.#sockets.splice(this.#sockets.indexOf(socket), 1);
    if (taken.length > 0) return taken.map(({ fd }) => fd);
    return this.#kept.filter((socket) => socket.address === address)
      .map(({ fd }) => duplicate(fd)).filter((fd) => fd !== undefined);
  }

  /** Closes what no listener took, except what is kept. */
  close(): void {
    for (const { fd } of this.#sockets.splice(0)) closeDescriptor(fd);
  }
}

/**
 * The sockets for one data path: of the process before, which accepts meanwhile, and those that another
 * program keeps.
 */
export function socketsFor(
  inherited: readonly ListeningSocket[] | undefined,
  kept: readonly ListeningSocket[] = [],
): InheritedSockets | undefined {
  if (!inherited && kept.length === 0) return undefined;
  return new InheritedSockets(inherited ?? [], { held: inherited !== undefined, kept });
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
