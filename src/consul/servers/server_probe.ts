/** Whether a server that was found can be used: it answers, and belongs to our cluster. @module */

import { type Log, ProxyError } from "../../base/mod.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { CallTarget } from "./followed_stream.ts";
import { GET_FEATURES, WATCH_ROOTS } from "./methods.ts";
import type { Method, Server } from "./types.ts";

interface ServerProbeOptions {
  readonly log: Log;
  /** Absent: any cluster is accepted. */
  readonly cluster: ClusterPin | undefined;
  /** `isStream`: the first message is the answer. */
  call<T>(target: CallTarget, method: Method<null, T>, isStream: boolean): Promise<T>;
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
      await this.#options.call(target, GET_FEATURES, false);
    } catch (error) {
      // A server that refuses our token serves, and refuses each call by itself.
      if (!isForbidden(error)) throw error;
    }
    await this.#proveCluster(target);
  }

  /** A server whose roots the token may not read is judged over HTTP, where that takes no right. */
  async #proveCluster(target: CallTarget): Promise<void> {
    const { cluster, call } = this.#options;
    if (!cluster?.isSet) return;
    const { server } = target;
    try {
      const { trustDomain } = await call(target, WATCH_ROOTS, true);
      cluster.judge(trustDomain, `the Consul server ${server.host}`);
      this.#foreign.delete(server.host);
    } catch (error) {
      this.#logForeign(server, error);
      if (!isForbidden(error)) throw error;
    }
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
