/**
 * Secrets from one SDS server: who follows which name, and how the server is reached.
 *
 * @module
 */

import { type Clock, type Log, type Random, type Stats } from "../../base/mod.ts";
import { createGrpcChannel, type GrpcChannel, type GrpcLimits } from "../../grpc/mod.ts";
import { type DialEngine } from "../../http/mod.ts";
import {
  type Environment,
  loadSecret,
  mergeValidation,
  type ReadSource,
  type TlsFault,
} from "../load/mod.ts";
import type { SdsApi, SdsServer, SecretRef } from "../plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { type FollowFiles, SdsFollower } from "./sds_follower.ts";
import { type NameEntry, SecretNames } from "./sds_names.ts";
import { serverTls } from "./server_tls.ts";
import { SdsStats } from "./sds_stats.ts";
import { SdsStreams } from "./sds_streams.ts";

export interface SdsDeps {
  readonly engine: DialEngine;
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

/** Every reference watched must be of this server and variant. */
export function createSdsProvider(server: SdsServer, api: SdsApi, deps: SdsDeps): SecretProvider {
  return new SdsProvider(server, api, deps);
}

class SdsProvider implements SecretProvider {
  readonly #deps: SdsDeps;
  readonly #log: Log;
  readonly #channel: GrpcChannel;
  readonly #stats: SdsStats;
  readonly #names: SecretNames;
  readonly #streams: SdsStreams;
  /** Names whose subscription has changed in this turn. */
  readonly #changed = new Set<NameEntry>();
  #closed = false;

  constructor(server: SdsServer, api: SdsApi, deps: SdsDeps) {
    const { engine, clock, random, version } = deps;
    this.#deps = deps;
    this.#log = deps.log.with({ sds: server.name });
    const stats = this.#stats = new SdsStats(deps.stats, `sds ${server.name}`);
    const allowFiles = deps.followFiles !== undefined;
    const names = this.#names = new SecretNames({ clock, stats, allowFiles });
    const channel = this.#channel = createGrpcChannel({
      engine,
      clock,
      random,
      addresses: server.addresses,
      tls: serverTls(server, { load: (spec) => this.#load(spec), nowMs: () => clock.now() }),
      metadata: server.metadata,
      keepAliveMs: server.keepAliveMs,
      keepAliveTimeoutMs: server.keepAliveTimeoutMs,
      ...(deps.limits && { limits: deps.limits }),
    });
    const log = this.#log;
    this.#streams = new SdsStreams({
      server,
      api,
      channel,
      names,
      stats,
      clock,
      random,
      log,
      version,
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
        entry.stream?.refresh();
        return follower.refresh();
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
    this.#streams.close();
    this.#channel.close();
    this.#stats.close();
    return Promise.resolve();
  }

  /** Names that come and go in one turn of the loop make one request. */
  #change(entry: NameEntry): void {
    if (this.#changed.size === 0) queueMicrotask(() => this.#apply());
    this.#changed.add(entry);
  }

  #apply(): void {
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
    this.#streams.leave(gone);
    this.#streams.join(added);
  }

  #load(spec: SecretSpec): Promise<Secret> {
    const { clock, read, env, tlsFault } = this.#deps;
    return loadSecret(spec, read, { nowMs: clock.now(), tlsFault, ...(env && { env }) });
  }
}
