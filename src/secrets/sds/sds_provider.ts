/**
 * Secrets from one SDS server.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../../base/mod.ts";
import { createGrpcChannel, type GrpcLimits } from "../../grpc/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { LoadSecret } from "../load/mod.ts";
import type { SdsApi, SdsServer, SecretProvider } from "../model/plan.ts";
import { type FollowFiles, SecretNames } from "./sds_names.ts";
import { SdsStats } from "./sds_reports.ts";
import { SdsStreams } from "./sds_streams.ts";
import { serverTls } from "./server_tls.ts";

export interface SdsDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The version of this program, which is sent to the server. */
  readonly version: string;
  /** Loads secrets, the server's own TLS credentials, and the configuration's part of a validation. */
  readonly load: LoadSecret;
  /** Present: a server may name files of this machine, which are followed then. */
  readonly followFiles?: FollowFiles;
  readonly limits?: Partial<GrpcLimits>;
}

/** Every reference must have this server and variant as its source. */
export function createSdsProvider(server: SdsServer, api: SdsApi, deps: SdsDeps): SecretProvider {
  const { engine, clock, random, version, load, followFiles, limits } = deps;
  const stats = new SdsStats(deps.stats, `sds ${server.name}`);
  const channel = createGrpcChannel({
    engine,
    clock,
    random,
    addresses: server.addresses,
    tls: serverTls(server, { load, nowMs: () => clock.now() }),
    metadata: server.metadata,
    keepAliveMs: server.keepAliveMs,
    keepAliveTimeoutMs: server.keepAliveTimeoutMs,
    ...(limits && { limits }),
  });
  const names = new SecretNames({
    clock,
    stats,
    load,
    followFiles,
    onChange(added, gone) {
      if (closed) return;
      streams.leave(gone);
      streams.join(added);
    },
  });
  const log = deps.log.with({ sds: server.name });
  const streams = new SdsStreams({
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
  let closed = false;
  return {
    watch(ref, events) {
      if (ref.source.kind !== "sds" || closed) {
        throw new TypeError(`Cannot watch "${ref.name}": it is no secret of this SDS server`);
      }
      return names.watch(ref, events);
    },
    close() {
      closed = true;
      names.close();
      streams.close();
      channel.close();
      stats.close();
      return Promise.resolve();
    },
  };
}
