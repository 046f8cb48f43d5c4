/**
 * The cluster that this proxy belongs to, and proof that it still answers. A cluster is known by its trust
 * domain, which it keeps for its whole life. A Consul with another one is another cluster (its data was
 * wiped, or its address was given away): none of its intentions, certificates or instances are about this
 * mesh.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { PinnedCluster } from "../model/consul.ts";

export class ClusterPin {
  #pinned: PinnedCluster | undefined;

  get isSet(): boolean {
    return this.#pinned !== undefined;
  }

  /** The first one stays: only a restart moves a proxy to another cluster. */
  set(cluster: PinnedCluster): void {
    this.#pinned ??= cluster;
  }

  /** Throws `cluster_changed` where `trustDomain`, which `peer` answered, is not that of the cluster. */
  judge(trustDomain: string, peer: string): void {
    const pinned = this.#pinned;
    if (!pinned || trustDomain.toLowerCase() === pinned.trustDomain) return;
    const { stateFile } = pinned;
    const accept = stateFile === undefined
      ? "restart the proxy"
      : `stop the proxy, remove ${stateFile} and start it again`;
    throw new ProxyError(
      "cluster_changed",
      `Cannot believe ${peer}: its trust domain is ${JSON.stringify(shortened(trustDomain))}, ` +
        `that of this proxy's cluster is "${pinned.trustDomain}"; ` +
        `if it is meant to join another cluster, ${accept}`,
    );
  }
}

function shortened(trustDomain: string): string {
  return trustDomain.length > 100 ? `${trustDomain.slice(0, 100)}...` : trustDomain;
}

/** Epochs that may pass during one proof; then the reply is given up. */
const TRIES = 5;

interface ClusterProofOptions {
  readonly pin: Pick<ClusterPin, "isSet">;
  /** `epoch` changes with every broken connection and every change of server or token. */
  readonly reach: { readonly epoch: number };
  /** Rejects with `cluster_changed` where the trust domain is another one. */
  readonly ask: () => Promise<void>;
}

/**
 * Proves the cluster whenever another Consul may answer (a connection broke, another server is in use, a
 * request failed, an index went back), and for new content in an agent's replies, since the servers behind
 * the agent may have changed. One proof serves all replies that arrive meanwhile, and none is used before.
 */
export class ClusterProof {
  readonly #options: ClusterProofOptions;
  #doubts = 0;
  #proved = "";
  #asking: { readonly about: string; readonly answer: Promise<void> } | undefined;
  /** Begins when the proof that runs now has ended. */
  #next: Promise<void> | undefined;

  constructor(options: ClusterProofOptions) {
    this.#options = options;
  }

  /** Another Consul may answer from now on. */
  doubt(): void {
    this.#doubts++;
  }

  /**
   * Resolves when a reply that has arrived may be used; rejects as `ask` does. `isNews`: only a proof
   * counts that begins after the reply arrived.
   */
  async confirm({ isNews = false }: { readonly isNews?: boolean } = {}): Promise<void> {
    if (isNews && this.#options.pin.isSet) await this.#proveAgain();
    for (let tried = 0; tried < TRIES && !this.#isProved; tried++) await this.#prove(this.#now);
    if (this.#isProved) return;
    throw new ProxyError("agent_failed", "Cannot tell which cluster answers: it fails too often");
  }

  get #now(): string {
    return `${this.#options.reach.epoch} ${this.#doubts}`;
  }

  get #isProved(): boolean {
    return !this.#options.pin.isSet || this.#proved === this.#now;
  }

  #proveAgain(): Promise<void> {
    const before = this.#asking?.answer.catch(() => {}) ?? Promise.resolve();
    return this.#next ??= before.then(() => {
      this.#next = undefined;
      return this.#prove(this.#now);
    });
  }

  #prove(about: string): Promise<void> {
    if (this.#asking?.about === about) return this.#asking.answer;
    const answer = this.#options.ask().then(() => {
      this.#proved = about;
    }).finally(() => {
      if (this.#asking?.about === about) this.#asking = undefined;
    });
    this.#asking = { about, answer };
    return answer;
  }
}
