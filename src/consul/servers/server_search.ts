/**
 * The search for a server to use: any one of those known by chance, looked up again when all have failed,
 * and taken when it answers.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  sleep,
  type Stats,
} from "../../base/mod.ts";
import { dialGrpcLink, type GrpcLink } from "../../grpc/mod.ts";
import { type DialEngine } from "../../http/mod.ts";
import type { ConsulTls } from "../http/tls_credentials.ts";
import { findServers, type Lookup } from "./server_addresses.ts";
import { ServerList } from "./server_list.ts";
import type { ServerAddresses } from "./types.ts";

export interface SearchOptions {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly lookup: Lookup;
  readonly places: ServerAddresses;
  readonly grpcPort: number;
  readonly tls: ConsulTls | null;
  /** Rejects where the server is no good. */
  readonly probe: (link: GrpcLink, host: string) => Promise<void>;
  /** Every server that is known has failed, or none is; called once in each search. */
  readonly onNone: () => void;
  /** A connection that was found takes no calls any more. */
  readonly onLost: (link: GrpcLink, reason: string) => void;
}

export interface FoundServer {
  readonly host: string;
  readonly link: GrpcLink;
}

/** A fleet that moves at once to the servers that are left has its handshakes done within this. */
const CONNECT_MS = 5_000;
/**
 * A silent server is asked every 17 s, counted from one question to the next: Consul wants at least 15
 * between two, and ends the connection at the fourth that comes sooner. It is lost 6 s after one.
 */
const KEEP_ALIVE_MS = 11_000;
const KEEP_ALIVE_TIMEOUT_MS = 6_000;
/** Places that gave something are not looked up again sooner: each may be a command that asks a cloud. */
const LOOKUP_MS = 5_000;

/** Lists have some KiB and change a few times a year; a server that says more is slowed, then left. */
const LIMITS = {
  messageBytes: 4 * 1024 * 1024,
  begunBytes: 16 * 1024 * 1024,
  connectMs: CONNECT_MS,
  messageBurst: 200,
  messagesPerSecond: 10,
} as const;

export class ServerSearch {
  readonly #options: SearchOptions;
  readonly #list: ServerList;
  #lookedUpMs = -Infinity;
  /** Of the search or of what was found; `""`: none yet. */
  lastFailure = "";

  constructor(options: SearchOptions) {
    this.#options = options;
    this.#list = new ServerList(options.random);
  }

  get known(): string[] {
    return this.#list.hosts;
  }

  /** What a server says that there is. Where nobody is ready those that were known may be soon. */
  replace(hosts: readonly string[]): void {
    if (hosts.length === 0) return;
    this.#list.replace(hosts);
    this.#tellKnown();
  }

  /** It is no good: others are tried before it. */
  failed(host: string, reason: string): void {
    this.lastFailure = reason;
    this.#list.failed(host, this.#options.clock.monotonic());
  }

  /** It has served for a while. */
  proved(host: string): void {
    this.#list.proved(host);
  }

  /** Lasts until there is one; `undefined`: aborted. */
  async find(signal: AbortSignal): Promise<FoundServer | undefined> {
    const { clock, random, log } = this.#options;
    const pauses = new Backoff({ baseMs: 1_000, maxMs: 10_000, random });
    let told = false;
    while (!signal.aborted) {
      const host = this.#list.pick(clock.monotonic());
      if (host !== undefined) {
        const link = await this.#connect(host, signal);
        if (link) return { host, link };
        continue;
      }
      await this.#lookUp();
      const waitMs = this.known.length > 0 ? this.#list.waitMs(clock.monotonic()) : pauses.next();
      if (waitMs === 0) continue;
      if (this.lastFailure && !told) {
        told = true;
        log.warn("no consul server can be used", { reason: this.lastFailure });
        this.#options.onNone();
      }
      await sleep(clock, waitMs, { signal });
    }
    return undefined;
  }

  async #lookUp(): Promise<void> {
    const { places, clock, lookup } = this.#options;
    const nowMs = clock.monotonic();
    if (this.known.length > 0 && nowMs - this.#lookedUpMs < LOOKUP_MS) return;
    this.#lookedUpMs = nowMs;
    try {
      this.#list.add(await findServers(places, { clock, lookup }));
      this.#tellKnown();
    } catch (error) {
      this.lastFailure = messageOf(error);
    }
  }

  /** `undefined`: it does not answer, or not well. */
  async #connect(host: string, signal: AbortSignal): Promise<GrpcLink | undefined> {
    const { engine, clock, random, tls, grpcPort, probe } = this.#options;
    let lost: string | undefined;
    const link: GrpcLink = dialGrpcLink({
      ...{ engine, clock, random, tls, metadata: {}, limits: LIMITS },
      address: { kind: "tcp", host, port: grpcPort },
      keepAliveMs: KEEP_ALIVE_MS,
      keepAliveTimeoutMs: KEEP_ALIVE_TIMEOUT_MS,
      onLost: (reason) => {
        lost = reason;
        this.#options.onLost(link, reason);
      },
    });
    const abort = () => link.close();
    signal.addEventListener("abort", abort, { once: true });
    try {
      await link.opened;
      await probe(link, host);
      if (lost !== undefined) throw new Error(lost);
      return link;
    } catch (error) {
      link.close();
      const way = tls ? "-grpc-port, with TLS" : "-grpc-port, -tls-disabled";
      const port = error instanceof ProxyError ? "" : ` port ${grpcPort} (${way})`;
      const reason = messageOf(error);
      const explained = tls ? tls.explain(reason) : reason;
      if (!signal.aborted) this.failed(host, `${host}${port}: ${explained}`);
      return undefined;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  #tellKnown(): void {
    const { stats } = this.#options;
    stats.gauge("servers_known", "Addresses of Consul servers that are known now").set(
      this.known.length,
    );
  }
}
