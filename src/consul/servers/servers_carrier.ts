/**
 * Carries requests to Consul's servers: all of them to the one in use, and to the next one after a move. A
 * request that its server broke, or that a move ended, is sent again to the next server where that is
 * safe; a wait ends with {@link AskAgain}, because the watch knows where to go on from.
 *
 * @module
 */

import { type Clock, ProxyError } from "../../base/mod.ts";
import {
  AskAgain,
  type Carrier,
  givenUp,
  NoReply,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "../http/carrier.ts";
import { wakeableSleep } from "../watch/pauses.ts";
import type { ConsulServers, Server } from "./types.ts";

/**
 * A request waits this long for another server, which is found in less where there is one. At the start all
 * may be down: then the request fails at once, so that the outage is reported and a stored state is used.
 */
const SERVER_WAIT_MS = 3_000;
/** Servers that one request is sent to. */
const TRIES = 3;
/** A well server without a leader holds a request for 12 s (seen on 1.22.7). */
const SILENT_SERVER_MS = 20_000;

export interface ServersCarrierOptions {
  readonly servers: Pick<ConsulServers, "current" | "leave" | "onMove"> & {
    /** Why none is in use; `""`: nothing has failed yet. */
    readonly status: { readonly lastFailure: string };
    /** Every known server has failed, and none was ever in use. */
    readonly isDown: boolean;
    /** Calls `fn` when {@link isDown} turns true. Returns how to stop. */
    onDown(fn: () => void): () => void;
  };
  readonly clock: Clock;
  /** Reads files; throws `config_invalid` where they cannot be used. */
  readonly createTransport: (server: Server) => WireTransport;
}

interface Used {
  readonly server: Server;
  readonly transport: WireTransport;
}

export class ServersCarrier implements Carrier {
  readonly peer = "server";
  readonly #options: ServersCarrierOptions;
  readonly #closing = new AbortController();
  readonly #stopFollowing: () => void;
  /** Ends the waits that run now. */
  #waits = new AbortController();
  #used: Used | undefined;

  constructor(options: ServersCarrierOptions) {
    this.#options = options;
    this.#stopFollowing = options.servers.onMove(() => this.#drop());
  }

  get where(): string {
    return this.#used?.transport.where ?? "an unknown place";
  }

  async send(request: WireRequest): Promise<WireReply> {
    for (let tried = 1;; tried++) {
      const used = await this.#usedFor(request);
      try {
        return await this.#sendBy(used, request);
      } catch (error) {
        if (request.signal?.aborted || this.#closing.signal.aborted) throw error;
        const isShortWait = error instanceof NoReply && request.timeoutMs < SILENT_SERVER_MS;
        if (isShortWait || !this.#isLeft(used, error)) throw error;
        if (request.waits) throw new AskAgain("The server was left");
        if (!request.repeatable || tried >= TRIES) throw unreachable(error);
      }
    }
  }

  /** Ends waits with {@link AskAgain}: something that they were sent with has changed. */
  endWaits(reason: string): void {
    const before = this.#waits;
    this.#waits = new AbortController();
    before.abort(new AskAgain(reason));
  }

  /** The server in use answers, but not well enough. */
  leave(reason: string): void {
    const { current } = this.#options.servers;
    if (current) this.#options.servers.leave(current, reason);
  }

  dropIdle(): void {
    this.#used?.transport.dropIdle();
  }

  reloadFiles(): void {
    if (!this.#used) return;
    this.#used.transport.renew();
    this.endWaits("Files for TLS were read again");
  }

  close(): void {
    this.#closing.abort();
    this.#stopFollowing();
    this.#used?.transport.close();
  }

  async #sendBy({ transport }: Used, request: WireRequest): Promise<WireReply> {
    if (!request.waits) return await transport.send(request);
    const waits = this.#waits.signal;
    const signal = request.signal ? AbortSignal.any([request.signal, waits]) : waits;
    try {
      return await transport.send({ ...request, signal });
    } catch (error) {
      throw waits.aborted ? waits.reason : error;
    }
  }

  /** Whether `error` comes from a server that was left, or that is left because of it. */
  #isLeft(used: Used, error: unknown): boolean {
    if (!(error instanceof ProxyError)) return false;
    if (error.code === "agent_unreachable") {
      if (this.#used === used) this.#drop();
      this.#options.servers.leave(used.server, error.message);
      return true;
    }
    return error.code === "closed" && this.#used !== used && !(error instanceof AskAgain);
  }

  #drop(): void {
    const used = this.#used;
    this.#used = undefined;
    used?.transport.close();
  }

  async #usedFor(request: WireRequest): Promise<Used> {
    const { servers } = this.#options;
    if (!servers.current && !servers.isDown) await this.#serverFound(request);
    const { current } = servers;
    if (this.#closing.signal.aborted || request.signal?.aborted) throw givenUp();
    if (!current) {
      const why = servers.status.lastFailure || "none has answered yet";
      const message = `Cannot ask a Consul server: none can be used: ${why}`;
      throw new ProxyError("agent_unreachable", message);
    }
    if (this.#used?.server === current) return this.#used;
    this.#drop();
    return this.#used = { server: current, transport: this.#options.createTransport(current) };
  }

  /** Resolves when there is a server, or when the wait for it is over. */
  async #serverFound({ signal, timeoutMs }: WireRequest): Promise<void> {
    const { servers, clock } = this.#options;
    const closing = this.#closing.signal;
    await wakeableSleep(clock, Math.min(SERVER_WAIT_MS, timeoutMs), {
      signal: signal ? AbortSignal.any([signal, closing]) : closing,
      onWake(wake) {
        const stops = [servers.onMove(wake), servers.onDown(wake)];
        return () => stops.forEach((stop) => stop());
      },
    });
  }
}

function unreachable(error: unknown): ProxyError {
  if (error instanceof ProxyError && error.code === "agent_unreachable") return error;
  return new ProxyError("agent_unreachable", "The Consul server was left before it had answered");
}
