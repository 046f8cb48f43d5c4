/**
 * Secrets from one SDS server: which names go over which stream, which variant of the protocol, and what
 * the store hears. All names share a stream where the server allows it.
 *
 * @module
 */

import {
  type Clock,
  formatAddress,
  type Log,
  messageOf,
  type Random,
  type Stats,
} from "../../base/mod.ts";
import { createGrpcChannel } from "../grpc/grpc_channel.ts";
import { formatStatus, GRPC_INVALID_ARGUMENT, GRPC_UNIMPLEMENTED } from "../grpc/grpc_status.ts";
import type { GrpcChannel, GrpcLimits } from "../grpc/grpc_types.ts";
import {
  type Environment,
  loadSecret,
  mergeValidation,
  type ReadSource,
  type TlsFault,
} from "../load/mod.ts";
import { Arrivals } from "../file/socket_arrivals.ts";
import type { SdsApi, SdsServer, SecretRef } from "../plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { type FollowFiles, SdsFollower } from "./sds_follower.ts";
import { ServerHealth } from "./sds_health.ts";
import { loadSdsMessages, type SdsMessages } from "./sds_messages.ts";
import { type NameEntry, SecretNames } from "./sds_names.ts";
import type { Retry } from "./sds_retry.ts";
import { serverTls } from "./server_tls.ts";
import { SdsStats } from "./sds_stats.ts";
import { retryOf, SdsStream, type SdsVariant, type StreamEnd } from "./sds_stream.ts";

export interface SdsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** Of this program: the server is told. */
  readonly version: string;
  /** For the server's own TLS, and what configuration merges with a validation. */
  readonly read: ReadSource;
  readonly env?: Environment;
  /** The engine's. */
  readonly tlsFault: TlsFault;
  /** Present: a server may name files of this machine, which are watched then. */
  readonly followFiles?: FollowFiles;
  readonly limits?: Partial<GrpcLimits>;
}

/** Names in one log line. */
const NAMES_SHOWN = 10;

/** Every reference watched must be of this server and variant. */
export function createSdsProvider(server: SdsServer, api: SdsApi, deps: SdsDeps): SecretProvider {
  return new SdsProvider(server, api, deps);
}

class SdsProvider implements SecretProvider {
  readonly #server: SdsServer;
  readonly #api: SdsApi;
  readonly #deps: SdsDeps;
  readonly #log: Log;
  readonly #channel: GrpcChannel;
  readonly #arrivals: Arrivals;
  readonly #stats: SdsStats;
  readonly #health: ServerHealth;
  readonly #names: SecretNames;
  readonly #lost: Retry;
  readonly #streams = new Set<SdsStream>();
  /** Those that have had a message, and those whose last end was a fault. */
  readonly #answering = new Set<SdsStream>();
  readonly #failing = new Set<SdsStream>();
  /** The one for all names, until the server refuses such a thing. */
  #shared: SdsStream | undefined;
  #oneEach = false;
  #variant: SdsVariant;
  #messages: SdsMessages | undefined;
  /** Names whose subscription has changed in this turn. */
  readonly #changed = new Set<NameEntry>();
  #closed = false;

  constructor(server: SdsServer, api: SdsApi, deps: SdsDeps) {
    const { clock, random, log, stats } = deps;
    this.#server = server;
    this.#api = api;
    this.#deps = deps;
    this.#variant = api === "sotw" ? "sotw" : "delta";
    this.#log = log.with({ sds: server.name });
    this.#stats = new SdsStats(stats, `sds ${server.name}`);
    this.#health = new ServerHealth(clock, this.#log);
    this.#lost = retryOf({ clock, random, server });
    this.#arrivals = new Arrivals({
      clock,
      random,
      addresses: server.addresses,
      onArrival: () => {
        for (const stream of this.#streams) stream.refresh();
      },
    });
    const allowFiles = deps.followFiles !== undefined;
    this.#names = new SecretNames({ clock, stats: this.#stats, allowFiles });
    this.#channel = createGrpcChannel({
      clock,
      random,
      addresses: server.addresses,
      tls: serverTls(server, { load: (spec) => this.#load(spec), nowMs: () => clock.now() }),
      metadata: server.metadata,
      keepAliveMs: server.keepAliveMs,
      keepAliveTimeoutMs: server.keepAliveTimeoutMs,
      ...(deps.limits && { limits: deps.limits }),
    });
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    const { name, source } = ref;
    if (source.kind !== "sds" || this.#closed) {
      throw new TypeError(`Cannot watch "${name}": it is no secret of this SDS server`);
    }
    const known = this.#names.get(name);
    const entry = known ?? this.#names.add(name);
    if (!known) this.#change(entry);
    const follower = new SdsFollower({
      ref,
      events,
      load: (spec, { defaults }) =>
        this.#load(
          defaults && spec.type === "validation" ? mergeValidation(defaults, spec) : spec,
        ),
      followFiles: this.#deps.followFiles,
    });
    const { followers, held } = entry;
    followers.add(follower);
    if (held) queueMicrotask(() => void follower.offer(held.spec, held.version));
    return {
      refresh: () => {
        follower.refresh();
        entry.stream?.refresh();
      },
      close: () => {
        follower.close();
        if (!followers.delete(follower) || followers.size > 0) return;
        this.#names.delete(name);
        this.#change(entry);
      },
    };
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#names.close();
    this.#changed.clear();
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
    this.#arrivals.end();
    this.#channel.close();
    this.#stats.close();
    return Promise.resolve();
  }

  /** Names that come and go in one turn of the loop make one request. */
  #change(entry: NameEntry): void {
    if (this.#changed.size === 0) queueMicrotask(() => void this.#apply());
    this.#changed.add(entry);
  }

  async #apply(): Promise<void> {
    try {
      this.#messages ??= await loadSdsMessages();
    } catch (error) {
      const reason = `Cannot speak to the SDS server "${this.#server.name}": ${messageOf(error)}`;
      this.#log.error("sds messages failed to load", { reason });
      for (const { followers } of this.#changed) {
        followers.forEach((of) => of.events.onUnreachable(reason));
      }
      this.#changed.clear();
      return;
    }
    if (this.#closed) return;
    const added: NameEntry[] = [];
    const gone: NameEntry[] = [];
    for (const entry of this.#changed) {
      const current = this.#names.get(entry.name);
      if (current === entry && !entry.stream) added.push(entry);
      else if (current !== entry && entry.stream) gone.push(entry);
      if (!current) this.#stats.forget(entry.name);
    }
    this.#changed.clear();
    this.#leave(gone);
    this.#join(added);
  }

  #join(entries: readonly NameEntry[]): void {
    if (entries.length === 0) return;
    if (this.#oneEach) {
      for (const entry of entries) {
        entry.stream = this.#newStream();
        entry.stream.change([entry.name], []);
      }
      return;
    }
    const stream = this.#shared ??= this.#newStream();
    for (const entry of entries) entry.stream = stream;
    stream.change(entries.map(({ name }) => name), []);
  }

  #leave(entries: readonly NameEntry[]): void {
    const names = new Map<SdsStream, string[]>();
    for (const { name, stream } of entries) {
      if (stream) names.set(stream, [...names.get(stream) ?? [], name]);
    }
    for (const [stream, gone] of names) {
      stream.change([], gone);
      if (stream !== this.#shared && stream.names.size === 0) this.#end(stream);
    }
  }

  #newStream(): SdsStream {
    const { clock, random, version } = this.#deps;
    if (!this.#messages) throw new TypeError("Cannot open a stream before its messages are loaded");
    const stream: SdsStream = new SdsStream({
      channel: this.#channel,
      messages: this.#messages,
      variant: this.#variant,
      server: this.#server,
      version,
      host: this.#names,
      clock,
      random,
      lost: this.#lost,
      events: {
        onOpening: (names) => this.#count("attempt", names),
        onWell: () => this.#reached(stream),
        onEnded: (end) => this.#ended(stream, end),
      },
    });
    this.#streams.add(stream);
    return stream;
  }

  #end(stream: SdsStream): void {
    stream.close();
    this.#streams.delete(stream);
    this.#mended(stream);
    this.#setAnswering(stream, false);
    if (this.#shared === stream) this.#shared = undefined;
  }

  #reached(stream: SdsStream): void {
    this.#setAnswering(stream, true);
    this.#mended(stream);
    if (this.#failing.size === 0) this.#health.reached();
    this.#names.each(stream.names, (of) => of.events.onReached());
  }

  #mended(stream: SdsStream): void {
    this.#failing.delete(stream);
    if (this.#failing.size === 0) this.#arrivals.end();
  }

  #setAnswering(stream: SdsStream, is: boolean): void {
    if (is) this.#answering.add(stream);
    else this.#answering.delete(stream);
    this.#stats.connected(this.#answering.size > 0);
  }

  #ended(stream: SdsStream, { status, wasWell }: StreamEnd): "again" | "stop" {
    this.#setAnswering(stream, false);
    const reason = formatStatus(status);
    if (status.code === GRPC_UNIMPLEMENTED && this.#variant === "delta") {
      const message = "sds server does not know delta, asked for the state of the world";
      if (this.#api === "delta") this.#log.warn(message, { reason });
      else this.#log.info(message, { reason });
      this.#variant = "sotw";
      this.#reopen();
      return "stop";
    }
    const several = stream.names.size > 1;
    if (status.code === GRPC_INVALID_ARGUMENT && several && stream === this.#shared) {
      // Because one of them is refused, or because it takes one at a time (SPIRE): alone they tell.
      const message = "sds server refused these names together, asked for each alone";
      const names = [...stream.names].slice(0, NAMES_SHOWN).join(", ");
      this.#log.info(message, { names, count: stream.names.size, reason });
      this.#oneEach = true;
      this.#reopen();
      return "stop";
    }
    if (wasWell) return "again";
    this.#count("failure", stream.names);
    this.#failing.add(stream);
    this.#arrivals.begin();
    const [name, second] = stream.names;
    const only = second === undefined ? name : undefined;
    this.#health.failed(status, only);
    const server = `SDS server "${this.#server.name}" at ${this.#where}`;
    const isRefused = only !== undefined && status.code === GRPC_INVALID_ARGUMENT;
    const text = isRefused
      ? `The ${server} refused "${only}": ${reason}`
      : `Cannot read from the ${server}: ${reason}`;
    this.#names.each(stream.names, (of) => of.events.onUnreachable(text));
    return "again";
  }

  /** Takes every name to new streams, by the rules of now. */
  #reopen(): void {
    for (const stream of this.#streams) this.#end(stream);
    const entries = [...this.#names.all()].filter(({ stream }) => stream);
    for (const entry of entries) entry.stream = undefined;
    this.#join(entries);
  }

  #load(spec: SecretSpec): Promise<Secret> {
    const { clock, read, env, tlsFault } = this.#deps;
    return loadSecret(spec, read, { nowMs: clock.now(), tlsFault, ...(env && { env }) });
  }

  #count(metric: "attempt" | "failure", names: Iterable<string>): void {
    for (const name of names) this.#stats.add(metric, name);
  }

  get #where(): string {
    return this.#server.addresses.map(formatAddress).join(", ");
  }
}
