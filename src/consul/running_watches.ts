/**
 * What a client agent and Consul's servers are asked in the same way, and the count of what is being
 * asked.
 *
 * @module
 */

import type { Agent, WatchHandle, WatchSink } from "./agent.ts";
import type { Client } from "./http/client.ts";
import { chainQuestion } from "./replies/discovery_chain.ts";
import { defaultsQuestion } from "./replies/defaults.ts";
import { healthQuestion } from "./replies/health.ts";
import { askInCatalog, tenancyOf } from "./replies/in_catalog.ts";
import { intentionsQuestion } from "./replies/intentions.ts";
import { jwtProviderQuestion } from "./replies/jwt_provider.ts";
import { meshQuestion } from "./replies/mesh.ts";
import { preparedQueryQuestion } from "./replies/prepared_query.ts";
import { type LoopDeps, type PollQuestion, startWatch } from "./watch/blocking_query.ts";
import { type RepeatQuestion, startRepeat } from "./watch/repeat.ts";

type Alike = Pick<
  Agent,
  | "askDefaults"
  | "askInCatalog"
  | "askIntentions"
  | "watchChain"
  | "watchDefaults"
  | "watchHealth"
  | "watchIntentions"
  | "watchJwtProvider"
  | "watchMesh"
  | "watchQuery"
  | "watchStates"
>;

const ASK_TIMEOUT_MS = 5_000;

export class RunningWatches {
  /** Aborts when all ends. */
  readonly closing: AbortSignal;
  readonly #closing = new AbortController();
  readonly #client: Client;
  readonly #deps: LoopDeps;
  readonly #running = new Set<WatchHandle>();

  constructor(client: Client, deps: LoopDeps) {
    this.#client = client;
    this.#deps = deps;
    this.closing = this.#closing.signal;
  }

  /** For a read that an operator waits for. */
  get askTerms(): { readonly timeoutMs: number; readonly signal: AbortSignal } {
    return { timeoutMs: ASK_TIMEOUT_MS, signal: this.closing };
  }

  /** Questions whose words are the same for both. */
  get alike(): Alike {
    const client = this.#client;
    return {
      watchIntentions: (service, sink) => this.watch(intentionsQuestion(client, service), sink),
      watchChain: (request, sink) => this.watch(chainQuestion(client, request), sink),
      watchHealth: (request, sink) => this.watch(healthQuestion(client, request), sink),
      watchQuery: (request, sink) => this.repeat(preparedQueryQuestion(client, request), sink),
      watchMesh: (sink) => this.watch(meshQuestion(client), sink),
      watchJwtProvider: (name, sink) => this.watch(jwtProviderQuestion(client, name), sink),
      watchDefaults: (request, sink) => this.watch(defaultsQuestion(client, request), sink),
      askDefaults: (request) =>
        this.call(async () => {
          const asked = { ...this.askTerms, waitMs: 0 };
          return (await defaultsQuestion(client, request).poll(asked)).value;
        }),
      askIntentions: ({ service, ...tenancy }) =>
        this.call(async () => {
          // With an index, as a read without one may be answered from an agent's cache.
          const asked = { ...this.askTerms, cursor: "1", waitMs: 1_000 };
          const question = intentionsQuestion(client, service, tenancyOf(tenancy));
          return (await question.poll(asked)).value;
        }),
      askInCatalog: (service) => this.call(() => askInCatalog(client, service, this.askTerms)),
      watchStates: () =>
        [...this.#running].map((handle) => handle.state).sort((a, b) => a.name < b.name ? -1 : 1),
    };
  }

  watch<T>(question: PollQuestion<T>, sink: WatchSink<T>): WatchHandle {
    return this.track(startWatch(question, { sink, deps: this.#deps }));
  }

  repeat<T>(question: RepeatQuestion<T>, sink: WatchSink<T>): WatchHandle {
    return this.track(startRepeat(question, { sink, deps: this.#deps }));
  }

  /** One call, when there is a connection to spare for it. */
  call<T>(run: () => Promise<T>, signal: AbortSignal = this.closing): Promise<T> {
    return this.#deps.budget.call("call", { signal, run });
  }

  /** Has a watch among those that are shown, and ended with the rest. */
  track(handle: WatchHandle): WatchHandle {
    this.#running.add(handle);
    return {
      get state() {
        return handle.state;
      },
      touch: () => handle.touch?.(),
      stop: () => {
        this.#running.delete(handle);
        handle.stop();
      },
    };
  }

  close(): void {
    this.#closing.abort();
    for (const handle of [...this.#running]) handle.stop();
    this.#running.clear();
    this.#deps.budget.close();
  }
}
