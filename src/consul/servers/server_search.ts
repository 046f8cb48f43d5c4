/** The search for a server: any known one at random, or else those looked up. @module */

import { Backoff, messageOf, ProxyError, type Random, sleep } from "../../base/mod.ts";
import { GrpcLink } from "../../grpc/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { CommonDeps } from "../model/consul.ts";
import type { ConsulTls } from "../http/tls_credentials.ts";
import type { CallTarget } from "./followed_stream.ts";
import { findServers, type Lookup } from "./server_addresses.ts";
import type { ServerAddresses } from "./types.ts";

interface SearchOptions extends CommonDeps {
  readonly engine: DialEngine;
  readonly lookup: Lookup;
  readonly places: ServerAddresses;
  readonly grpcPort: number;
  readonly tls: ConsulTls | null;
  /** Rejects where the server cannot be used. */
  readonly probe: (target: CallTarget) => Promise<void>;
  /** Called once in a search, when every known server has failed, or none is known. */
  readonly onNone: () => void;
  /** A connection that was found takes no calls any more. */
  readonly onLost: (link: GrpcLink, reason: string) => void;
}

/** A fleet that moves at once to the servers that are left has its handshakes done within this. */
const CONNECT_MS = 5_000;
/**
 * A silent server gets a PING every 17 s, counted from one PING to the next: Consul demands at least 15
 * between two, and ends the connection at the fourth that comes sooner. It is lost 6 s after one.
 */
const KEEP_ALIVE_MS = 11_000;
const KEEP_ALIVE_TIMEOUT_MS = 6_000;
/** Known places are not looked up again sooner: each may be a command that asks a cloud. */
const LOOKUP_MS = 5_000;

/** Lists have some KiB and change a few times a year; a server that sends more is slowed, then left. */
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
  /** The last failure of the search or of a server; `""`: none yet. */
  lastFailure = "";

  constructor(options: SearchOptions) {
    this.#options = options;
    this.#list = new ServerList(options.random);
  }

  get known(): string[] {
    return this.#list.hosts;
  }

  /** Takes over a server's list. An empty one is ignored: the known servers may be ready soon. */
  replace(hosts: readonly string[]): void {
    if (hosts.length === 0) return;
    this.#list.replace(hosts);
    this.#reportKnown();
  }

  /** Other servers are tried before it. */
  failed(host: string, reason: string): void {
    this.lastFailure = reason;
    this.#list.failed(host, this.#options.clock.monotonic());
  }

  /** It has served for a while. */
  proved(host: string): void {
    this.#list.proved(host);
  }

  /** Lasts until there is one; `undefined`: aborted. */
  async find(signal: AbortSignal): Promise<CallTarget | undefined> {
    const { clock, random, log } = this.#options;
    const pauses = new Backoff({ baseMs: 1_000, maxMs: 10_000, random });
    let isReported = false;
    while (!signal.aborted) {
      const host = this.#list.pick(clock.monotonic());
      if (host !== undefined) {
        const found = await this.#connect(host, signal);
        if (found) return found;
        continue;
      }
      await this.#lookUp();
      const waitMs = this.known.length > 0 ? this.#list.waitMs(clock.monotonic()) : pauses.next();
      if (waitMs === 0) continue;
      if (this.lastFailure && !isReported) {
        isReported = true;
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
      this.#reportKnown();
    } catch (error) {
      this.lastFailure = messageOf(error);
    }
  }

  /** `undefined`: it does not answer, or not well. */
  async #connect(host: string, signal: AbortSignal): Promise<CallTarget | undefined> {
    const { engine, clock, random, tls, grpcPort, probe } = this.#options;
    let lost: string | undefined;
    const link: GrpcLink = new GrpcLink({
      engine,
      clock,
      random,
      tls,
      metadata: {},
      limits: LIMITS,
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
      const target = { server: { host }, link };
      await probe(target);
      if (lost !== undefined) throw new Error(lost);
      return target;
    } catch (error) {
      link.close();
      const flags = tls ? "-grpc-port, with TLS" : "-grpc-port, -tls-disabled";
      const port = error instanceof ProxyError ? "" : ` port ${grpcPort} (${flags})`;
      const reason = messageOf(error);
      const explained = tls ? tls.explain(reason) : reason;
      if (!signal.aborted) this.failed(host, `${host}${port}: ${explained}`);
      return undefined;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  #reportKnown(): void {
    this.#options.stats.gauge("servers_known", "Addresses of Consul servers that are known now")
      .set(this.known.length);
  }
}

/** The first pause after a failure; each further one in a row is half as long again. */
const PAUSE_MS = 500;
/** A server that is back is found within this time, and a thousand proxies dial it 130 times a second. */
const PAUSE_LIMIT_MS = 10_000;

interface KnownServer {
  failures: number;
  /** Time before which it is not picked. */
  untilMs: number;
}

/** The known servers; one is picked at random, but none soon after it has failed. Pure. */
export class ServerList {
  readonly #random: Random;
  #known = new Map<string, KnownServer>();

  constructor(random: Random) {
    this.#random = random;
  }

  get hosts(): string[] {
    return [...this.#known.keys()];
  }

  /** These and no others; the failures of those that stay are kept. */
  replace(hosts: readonly string[]): void {
    const before = this.#known;
    this.#known = new Map();
    for (const host of hosts) this.#known.set(host, before.get(host) ?? fresh());
  }

  add(hosts: readonly string[]): void {
    for (const host of hosts) if (!this.#known.has(host)) this.#known.set(host, fresh());
  }

  /** `undefined`: all have failed a moment ago. */
  pick(nowMs: number): string | undefined {
    const ready = [...this.#known].filter(([, { untilMs }]) => untilMs <= nowMs);
    return ready[Math.floor(this.#random() * ready.length)]?.[0];
  }

  failed(host: string, nowMs: number): void {
    const known = this.#known.get(host);
    if (!known) return;
    const pauseMs = Math.min(PAUSE_LIMIT_MS, PAUSE_MS * 1.5 ** Math.min(known.failures, 20));
    known.failures++;
    known.untilMs = nowMs + pauseMs * (1 + this.#random()) / 2;
  }

  /** It has served for a while. */
  proved(host: string): void {
    const known = this.#known.get(host);
    if (known) known.failures = 0;
  }

  /** Until {@link pick} has one; Infinity where none is known. */
  waitMs(nowMs: number): number {
    let untilMs = Infinity;
    for (const known of this.#known.values()) untilMs = Math.min(untilMs, known.untilMs);
    return Math.max(0, untilMs - nowMs);
  }
}

function fresh(): KnownServer {
  return { failures: 0, untilMs: 0 };
}
