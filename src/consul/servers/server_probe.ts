/** Whether a server that was found can be used: it answers, and belongs to our cluster. @module */

import { type Log, ProxyError } from "../../base/mod.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { CallTarget } from "./followed_stream.ts";
import { GET_FEATURES, WATCH_ROOTS } from "./methods.ts";
import type { Method } from "./types.ts";

interface ServerProbeOptions {
  readonly log: Log;
  /** Absent: any cluster is accepted. */
  readonly cluster: ClusterPin | undefined;
  /** `isStream`: the first message is the answer. */
  call<T>(target: CallTarget, method: Method<null, T>, isStream: boolean): Promise<T>;
}

/** The result rejects where the server cannot be used. */
export function createServerProbe(
  { log, cluster, call }: ServerProbeOptions,
): (target: CallTarget) => Promise<void> {
  /** Hosts of servers of other clusters that were logged: each is once, however often it is tried. */
  const foreign = new Set<string>();
  return async (target) => {
    const { host } = target.server;
    try {
      await call(target, GET_FEATURES, false);
    } catch (error) {
      // A server that refuses our token serves, and refuses each call by itself.
      if (!isForbidden(error)) throw error;
    }
    if (!cluster?.isSet) return;
    try {
      const { trustDomain } = await call(target, WATCH_ROOTS, true);
      cluster.judge(trustDomain, `the Consul server ${host}`);
      foreign.delete(host);
    } catch (error) {
      // A server whose roots the token may not read is judged over HTTP, where that takes no right.
      if (isForbidden(error)) return;
      const isForeign = error instanceof ProxyError && error.code === "cluster_changed";
      if (isForeign && !foreign.has(host)) {
        foreign.add(host);
        const fields = { server: host, error: error.message };
        log.error("consul server belongs to another cluster", fields);
      }
      throw error;
    }
  };
}

function isForbidden(error: unknown): boolean {
  return error instanceof ProxyError && error.code === "agent_forbidden";
}
