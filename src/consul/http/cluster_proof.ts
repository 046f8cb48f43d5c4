/**
 * Proof that the Consul which answers is still the cluster that the proxy belongs to. It is asked for
 * whenever somebody else may answer (a connection broke, another server is in use, a request failed, an
 * index went back) and for what an agent says that is new, since the servers behind it may be others.
 * Once for all answers that come meanwhile, and none is used before it.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { ClusterPin } from "../cluster_pin.ts";
import type { AgentLink } from "./link.ts";

/** Epochs that pass while it is asked: more, and the answer is given up. */
const TRIES = 5;

export interface ClusterProofOptions {
  readonly pin: Pick<ClusterPin, "isSet">;
  readonly link: Pick<AgentLink, "epoch">;
  /** Rejects with `cluster_changed` where the trust domain is another one. */
  readonly ask: () => Promise<void>;
}

export class ClusterProof {
  readonly #options: ClusterProofOptions;
  #doubts = 0;
  #proved = "";
  #asking: { readonly about: string; readonly answer: Promise<void> } | undefined;
  /** Begins when what is asked now has its answer. */
  #next: Promise<void> | undefined;

  constructor(options: ClusterProofOptions) {
    this.#options = options;
  }

  /** Somebody else may answer from now on. */
  doubt(): void {
    this.#doubts++;
  }

  /**
   * Resolves when an answer that has come may be used; rejects as `ask` does. `isNews`: no proof counts
   * that was asked for before it came.
   */
  async confirm({ isNews = false }: { readonly isNews?: boolean } = {}): Promise<void> {
    if (isNews && this.#options.pin.isSet) await this.#proveAnew();
    for (let tried = 0; tried < TRIES && !this.#isProved; tried++) await this.#prove(this.#now);
    if (this.#isProved) return;
    throw new ProxyError("agent_failed", "Cannot tell which cluster answers: it fails too often");
  }

  get #now(): string {
    return `${this.#options.link.epoch} ${this.#doubts}`;
  }

  get #isProved(): boolean {
    return !this.#options.pin.isSet || this.#proved === this.#now;
  }

  #proveAnew(): Promise<void> {
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
