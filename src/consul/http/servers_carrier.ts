/**
 * The way to Consul's servers: all requests go to the one in use, and move with it. A request that its
 * server broke, or that a move ended, is asked again of the next server where it can be as it is; a wait
 * ends with {@link AskAgain}, because where it goes on from is for the watch to say.
 *
 * @module
 */

import { type Clock, ProxyError } from "../../base/mod.ts";
import type { ConsulServers, Server } from "../servers/types.ts";
import {
  AskAgain,
  type Carrier,
  givenUp,
  NoReply,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "./carrier.ts";

/**
 * So long a request waits for another server, which is found in less where there is one. At the start all
 * may be down: then the request fails at once, so that the outage is told and a stored state is used.
 */
const SERVER_WAIT_MS = 3_000;
/** Servers that one request is tried at. */
const TRIES = 3;

/** Without a leader a server holds a request for 12 s (seen on 1.22.7), and is none the worse for it. */
const PATIENCE_MS = 20_000;

export interface ServersCarrierOptions {
  readonly servers: Pick<ConsulServers, "current" | "leave" | "onMove"> & {
    /** Why none is in use; `""`: nothing has failed yet. */
    readonly status: { readonly lastFailure: string };
    /** Every known server has failed, and none was ever in use. */
    readonly isDown: boolean;
    /** `fn` is called when {@link isDown} turns true. Returns how to stop. */
    onDown(fn: () => void): () => void;
  };
  readonly clock: Clock;
  /** Reads files; throws `config_invalid` where they cannot be used. */
  readonly createTransport: (server: Server) => WireTransport;
}

/** A server and the connections to it. */
interface Line {
  readonly server: Server;
  readonly transport: WireTransport;
}

export class ServersCarrier implements Carrier {
  readonly peer = "server";
  readonly #options: ServersCarrierOptions;
  readonly #closing = new AbortController();
  readonly #stopFollowing: readonly (() => void)[];
  readonly #waiting = new Set<() => void>();
  /** Ends the waits that run now. */
  #waits = new AbortController();
  #line: Line | undefined;

  constructor(options: ServersCarrierOptions) {
    this.#options = options;
    const { servers } = options;
    this.#stopFollowing = [
      servers.onMove(() => this.#moved()),
      servers.onDown(() => this.#wakeWaiting()),
    ];
  }

  get where(): string {
    return this.#line?.transport.where ?? "an unknown place";
  }

  async send(request: WireRequest): Promise<WireReply> {
    for (let tried = 1;; tried++) {
      const line = await this.#lineFor(request);
      try {
        return await this.#sendBy(line, request);
      } catch (error) {
        if (request.signal?.aborted || this.#closing.signal.aborted) throw error;
        const isHasty = error instanceof NoReply && request.timeoutMs < PATIENCE_MS;
        if (isHasty || !this.#isLeft(line, error)) throw error;
        if (request.waits) throw new AskAgain("The server was left");
        if (!request.repeatable || tried >= TRIES) throw unreachable(error);
      }
    }
  }

  /** Waits end with {@link AskAgain}: something that they were asked with is not true any more. */
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
    this.#line?.transport.dropIdle();
  }

  reloadFiles(): void {
    const line = this.#line;
    if (!line) return;
    line.transport.renew();
    this.endWaits("Files for TLS were read again");
  }

  close(): void {
    this.#closing.abort();
    for (const stop of this.#stopFollowing) stop();
    this.#line?.transport.close();
  }

  async #sendBy(line: Line, request: WireRequest): Promise<WireReply> {
    if (!request.waits) return await line.transport.send(request);
    const waits = this.#waits.signal;
    const signal = request.signal ? AbortSignal.any([request.signal, waits]) : waits;
    try {
      return await line.transport.send({ ...request, signal });
    } catch (error) {
      throw waits.aborted ? waits.reason : error;
    }
  }

  /** Whether `error` is about the server, which is no longer asked then. */
  #isLeft(line: Line, error: unknown): boolean {
    if (!(error instanceof ProxyError)) return false;
    if (error.code === "agent_unreachable") {
      if (this.#line === line) this.#drop();
      this.#options.servers.leave(line.server, error.message);
      return true;
    }
    return error.code === "closed" && this.#line !== line && !(error instanceof AskAgain);
  }

  #moved(): void {
    this.#drop();
    this.#wakeWaiting();
  }

  #wakeWaiting(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  #drop(): void {
    const line = this.#line;
    this.#line = undefined;
    line?.transport.close();
  }

  async #lineFor(request: WireRequest): Promise<Line> {
    const { servers } = this.#options;
    if (!servers.current && !servers.isDown) await this.#serverFound(request);
    const { current } = servers;
    if (this.#closing.signal.aborted || request.signal?.aborted) throw givenUp();
    if (!current) {
      const why = this.#options.servers.status.lastFailure || "none has answered yet";
      throw new ProxyError(
        "agent_unreachable",
        `Cannot ask a Consul server: none can be used: ${why}`,
      );
    }
    if (this.#line?.server !== current) {
      this.#drop();
      this.#line = { server: current, transport: this.#options.createTransport(current) };
    }
    return this.#line as Line;
  }

  /** Returns when there is one, or when the wait for it is over. */
  #serverFound(request: WireRequest): Promise<void> {
    return new Promise((resolve) => {
      const signal = request.signal
        ? AbortSignal.any([request.signal, this.#closing.signal])
        : this.#closing.signal;
      const end = () => {
        timer.cancel();
        signal.removeEventListener("abort", end);
        this.#waiting.delete(end);
        resolve();
      };
      const waitMs = Math.min(SERVER_WAIT_MS, request.timeoutMs);
      const timer = this.#options.clock.after(waitMs, end);
      signal.addEventListener("abort", end);
      this.#waiting.add(end);
      if (signal.aborted) end();
    });
  }
}

function unreachable(error: unknown): ProxyError {
  if (error instanceof ProxyError && error.code === "agent_unreachable") return error;
  return new ProxyError("agent_unreachable", "The Consul server was left before it had answered");
}
