/** Whether a server that was found can be used: it answers, and belongs to our cluster. @module */

import { type Clock, type Log, ProxyError } from "../../base/mod.ts";
import type { GrpcStatus } from "../../grpc/mod.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { FlagNames } from "../model/flag_names.ts";
import { callOnce, isUnauthenticated } from "./calls.ts";
import type { CallTarget } from "./followed_stream.ts";
import { GET_FEATURES, WATCH_ROOTS } from "./methods.ts";
import type { Method, Server } from "./types.ts";

const PROBE_MS = 5_000;

interface ServerProbeOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly names: FlagNames;
  /** Absent: any cluster is accepted. */
  readonly cluster: ClusterPin | undefined;
  readonly signal: AbortSignal;
  token(): string;
  rejected(token: string): void;
}

export class ServerProbe {
  readonly #options: ServerProbeOptions;
  /** Hosts of servers of other clusters that were logged. */
  readonly #foreign = new Set<string>();

  constructor(options: ServerProbeOptions) {
    this.#options = options;
  }

  /** Rejects where the server cannot be used. */
  async probe(target: CallTarget): Promise<void> {
    try {
      await this.#call(target, GET_FEATURES);
    } catch (error) {
      // A server that refuses our token serves, and refuses each call by itself.
      if (!isForbidden(error)) throw error;
    }
    await this.#proveCluster(target);
  }

  /** A server whose roots the token may not read is judged over HTTP, where that takes no right. */
  async #proveCluster(target: CallTarget): Promise<void> {
    const { cluster } = this.#options;
    if (!cluster?.isSet) return;
    const { server } = target;
    try {
      const { trustDomain } = await this.#call(target, WATCH_ROOTS, { isStream: true });
      cluster.judge(trustDomain, `the Consul server ${server.host}`);
      this.#foreign.delete(server.host);
    } catch (error) {
      this.#logForeign(server, error);
      if (!isForbidden(error)) throw error;
    }
  }

  #call<Response>(
    { server, link }: CallTarget,
    method: Method<null, Response>,
    { isStream = false }: { readonly isStream?: boolean } = {},
  ): Promise<Response> {
    const { clock, names, signal } = this.#options;
    const token = this.#options.token();
    return callOnce(link, { method, request: null }, {
      host: server.host,
      token,
      timeoutMs: PROBE_MS,
      clock,
      signal,
      names,
      isStream,
      onStatus: (status: GrpcStatus) => {
        if (!isStream && isUnauthenticated(status)) this.#options.rejected(token);
      },
    });
  }

  /** Once for each, however often it is tried. */
  #logForeign({ host }: Server, error: unknown): void {
    if (!(error instanceof ProxyError && error.code === "cluster_changed")) return;
    if (this.#foreign.has(host)) return;
    this.#foreign.add(host);
    const fields = { server: host, error: error.message };
    this.#options.log.error("consul server belongs to another cluster", fields);
  }
}

function isForbidden(error: unknown): boolean {
  return error instanceof ProxyError && error.code === "agent_forbidden";
}
