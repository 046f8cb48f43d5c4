/**
 * Secrets from one SDS server.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../../base/mod.ts";
import {
  createGrpcChannel,
  type GrpcChannel,
  type GrpcEngine,
  type GrpcLimits,
} from "../../grpc/mod.ts";
import { type LoadSecret, withDefaults } from "../load/mod.ts";
import type { SdsApi, SdsServer, SecretRef } from "../model/plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../model/secret_provider.ts";
import { type FollowFiles, type NameEntry, SdsFollower, SecretNames } from "./sds_names.ts";
import { SdsStats } from "./sds_reports.ts";
import { SdsStreams } from "./sds_streams.ts";
import { serverTls } from "./server_tls.ts";

export interface SdsDeps {
  readonly engine: GrpcEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The version of this program, which is sent to the server. */
  readonly version: string;
  /** Also for the server's own TLS, and the configuration's part of a validation. */
  readonly load: LoadSecret;
  /** Present: a server may name files of this machine, which are followed then. */
  readonly followFiles?: FollowFiles;
  readonly limits?: Partial<GrpcLimits>;
}

/** Every reference must have this server and variant as its source. */
export function createSdsProvider(server: SdsServer, api: SdsApi, deps: SdsDeps): SecretProvider {
  return new SdsProvider(server, api, deps);
}

class SdsProvider implements SecretProvider {
  readonly #deps: SdsDeps;
  readonly #channel: GrpcChannel;
  readonly #stats: SdsStats;
  readonly #names: SecretNames;
  readonly #streams: SdsStreams;
  /** Names whose subscription has changed in this turn. */
  readonly #changed = new Set<NameEntry>();
  #closed = false;

  constructor(server: SdsServer, api: SdsApi, deps: SdsDeps) {
    const { engine, clock, random, version, load } = deps;
    this.#deps = deps;
    const stats = this.#stats = new SdsStats(deps.stats, `sds ${server.name}`);
    const allowFiles = deps.followFiles !== undefined;
    const names = this.#names = new SecretNames({ clock, stats, allowFiles });
    const channel = this.#channel = createGrpcChannel({
      engine,
      clock,
      random,
      addresses: server.addresses,
      tls: serverTls(server, { load, nowMs: () => clock.now() }),
      metadata: server.metadata,
      keepAliveMs: server.keepAliveMs,
      keepAliveTimeoutMs: server.keepAliveTimeoutMs,
      ...(deps.limits && { limits: deps.limits }),
    });
    this.#streams = new SdsStreams({
      server,
      api,
      channel,
      names,
      stats,
      clock,
      random,
      log: deps.log.with({ sds: server.name }),
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
    const { load, followFiles } = this.#deps;
    const follower = new SdsFollower({
      ref,
      events,
      load: (spec, { defaults }) => load(withDefaults(spec, defaults)),
      followFiles,
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

  /** Names that come and go in one turn of the event loop make one request. */
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
}
