/**
 * The cluster that this proxy belongs to, known by its trust domain, which a cluster keeps for its whole
 * life. A Consul with another one is another cluster (its data was wiped, or its address was given to
 * somebody else): nothing that it says about intentions, certificates or instances is about this mesh.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";

export interface PinnedCluster {
  /** In lower case. */
  readonly trustDomain: string;
  /** The file that a restart would serve from; absent: none is kept. */
  readonly stateFile?: string;
}

export class ClusterPin {
  #pinned: PinnedCluster | undefined;

  get isSet(): boolean {
    return this.#pinned !== undefined;
  }

  /** The first one stays: only a restart moves a proxy to another cluster. */
  set(cluster: PinnedCluster): void {
    this.#pinned ??= cluster;
  }

  /** Throws `cluster_changed` where `trustDomain`, told by `who`, is not that of the cluster. */
  judge(trustDomain: string, who: string): void {
    const pinned = this.#pinned;
    if (!pinned || trustDomain.toLowerCase() === pinned.trustDomain) return;
    const { stateFile } = pinned;
    const accept = stateFile === undefined
      ? "restart the proxy"
      : `stop the proxy, remove ${stateFile} and start it again`;
    throw new ProxyError(
      "cluster_changed",
      `Cannot believe ${who}: its trust domain is ${JSON.stringify(shown(trustDomain))}, ` +
        `that of this proxy's cluster is "${pinned.trustDomain}"; ` +
        `if it is meant to join another cluster, ${accept}`,
    );
  }
}

function shown(trustDomain: string): string {
  return trustDomain.length > 100 ? `${trustDomain.slice(0, 100)}...` : trustDomain;
}
