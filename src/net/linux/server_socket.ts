/** The listening socket of a server that the runtime opened by itself, such as one of `node:http`. @module */

import { readdirSync } from "node:fs";
import { formatAddress } from "../../base/mod.ts";
import { cLibrary } from "./c_library.ts";
import { duplicate, listeningAt } from "./descriptors.ts";
import { replaceSocket } from "./epoll_watch.ts";

interface Place {
  readonly host: string;
  readonly port: number;
}

/** A server's socket that can be handed over. */
export interface ServerSocket {
  /** Copies of its descriptor, for another process; empty: this runtime cannot. */
  copies(): readonly number[];
}

/** Call this when the server has begun to listen, before many descriptors are open. */
export function serverSocketAt(place: Place): ServerSocket {
  const fd = descriptorAt(place);
  return {
    copies() {
      const copy = fd === undefined ? undefined : duplicate(fd);
      return copy === undefined ? [] : [copy];
    },
  };
}

/** Has the server at `place` listen on `other` instead, which is taken. False: it cannot. */
export function listenInstead(place: Place, other: number): boolean {
  const fd = descriptorAt(place);
  if (fd !== undefined) return replaceSocket(fd, other);
  cLibrary()?.close(other);
  return false;
}

function descriptorAt(place: Place): number | undefined {
  if (!cLibrary()) return undefined;
  const wanted = formatAddress({ kind: "tcp", ...place });
  try {
    return readdirSync("/proc/self/fd").map(Number).find((fd) => {
      const at = listeningAt(fd);
      return at !== undefined && formatAddress(at) === wanted;
    });
  } catch {
    // No /proc: the socket stays with this process.
    return undefined;
  }
}
