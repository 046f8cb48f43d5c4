/**
 * The limit on connections to the admin server. A new connection replaces the one that has been idle
 * longest; requests leave two places to probes.
 *
 * @module
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../base/mod.ts";

type Socket = IncomingMessage["socket"];

const PLACES = 64;
const FOR_PROBES = 2;
/** The client of a request that lasts so long does not read the answer: its connection counts as idle. */
const SLOW_MS = 10_000;

export class AdminConnectionLimit {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Longest idle first. */
  readonly #idle = new Set<Socket>();
  /** Longest busy first. */
  readonly #busy = new Map<Socket, { requests: number; readonly sinceMs: number }>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Call for each connection. */
  enter(socket: Socket): void {
    if (this.#idle.size + this.#busy.size >= PLACES && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    this.#idle.add(socket);
    socket.once("close", () => this.#leave(socket));
  }

  /** Call for each request. False: there is no place for it. */
  serve(socket: Socket, answer: ServerResponse, isProbe: boolean): boolean {
    const busy = this.#busy.get(socket);
    if (busy) busy.requests++;
    else {
      if (!isProbe && this.#busy.size >= PLACES - FOR_PROBES) return false;
      this.#idle.delete(socket);
      this.#busy.set(socket, { requests: 1, sinceMs: this.#clock.monotonic() });
    }
    answer.once("close", () => this.#answered(socket));
    return true;
  }

  #answered(socket: Socket): void {
    const busy = this.#busy.get(socket);
    if (!busy || --busy.requests > 0) return;
    this.#busy.delete(socket);
    if (!socket.destroyed) this.#idle.add(socket);
  }

  #makeRoom(): boolean {
    for (const socket of this.#idle) return this.#end(socket);
    const nowMs = this.#clock.monotonic();
    for (const [socket, { sinceMs }] of this.#busy) {
      return nowMs - sinceMs >= SLOW_MS && this.#end(socket);
    }
    return false;
  }

  #end(socket: Socket): true {
    this.#leave(socket);
    socket.destroy();
    return true;
  }

  #leave(socket: Socket): void {
    this.#idle.delete(socket);
    this.#busy.delete(socket);
  }
}
