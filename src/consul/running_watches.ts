/** Watches and calls that agents and servers share, and the list of watches that run. @module */

import type { Client } from "./http/client.ts";
import type { Consul, WatchHandle, WatchSink } from "./model/consul.ts";
import { askInCatalog, askProtocols, tenancyOf } from "./replies/catalog_reads.ts";
import { chainQuestion } from "./replies/discovery_chain.ts";
import { healthQuestion, preparedQueryQuestion } from "./replies/instances.ts";
import { intentionsQuestion } from "./replies/intentions.ts";
import { askKey } from "./replies/key_value.ts";
import { jwtProviderQuestion } from "./replies/jwt_provider.ts";
import { defaultsQuestion, meshQuestion } from "./replies/mesh_and_defaults.ts";
import { type LoopDeps, type PollQuestion, startWatch } from "./watch/blocking_query.ts";
import { type RepeatQuestion, startRepeat } from "./watch/repeat.ts";

type CommonCalls = Pick<
  Required<Consul>,
  | "askDefaults"
  | "askInCatalog"
  | "askIntentions"
  | "askKey"
  | "askProtocols"
  | "replyDate"
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

  get common(): CommonCalls {
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
          const terms = { ...this.askTerms, waitMs: 0 };
          return (await defaultsQuestion(client, request).poll(terms)).value;
        }),
      askIntentions: ({ service, ...tenancy }) =>
        this.call(async () => {
          // The read has an index, because one without may come from an agent's cache.
          const terms = { ...this.askTerms, cursor: "1", waitMs: 1_000 };
          const question = intentionsQuestion(client, service, tenancyOf(tenancy));
          return (await question.poll(terms)).value;
        }),
      askKey: (key) => this.call(() => askKey(client, key, this.askTerms)),
      askInCatalog: (service) => this.call(() => askInCatalog(client, service, this.askTerms)),
      askProtocols: (service) => this.call(() => askProtocols(client, service, this.askTerms)),
      replyDate: () => client.lastDate,
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

  /** One call, once a lane is free for it. */
  call<T>(run: () => Promise<T>, signal: AbortSignal = this.closing): Promise<T> {
    return this.#deps.budget.call("call", { signal, run });
  }

  /** Lists a watch with the others, and ends it with them. */
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
