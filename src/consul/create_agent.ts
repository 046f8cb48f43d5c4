/**
 * Puts client, budget and watches together into an {@link Agent}.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../base/mod.ts";
import type { Agent, WatchHandle, WatchSink } from "./agent.ts";
import { askAuthorize } from "./replies/authorize.ts";
import { type LoopDeps, type PollQuestion, startWatch } from "./watch/blocking_query.ts";
import { ConnectionBudget } from "./watch/budget.ts";
import { AgentCarrier } from "./http/agent_carrier.ts";
import { Client } from "./http/client.ts";
import { defaultPolicyQuestion } from "./replies/default_policy.ts";
import { defaultsQuestion } from "./replies/defaults.ts";
import { chainQuestion } from "./replies/discovery_chain.ts";
import { findGateway, findProxy, findSidecar } from "./find_sidecar.ts";
import { followRegistration } from "./follow_registration.ts";
import { healthQuestion } from "./replies/health.ts";
import { ingressEntryQuestion } from "./replies/ingress.ts";
import { intentionsQuestion } from "./replies/intentions.ts";
import { jwtProviderQuestion } from "./replies/jwt_provider.ts";
import { leafQuestion } from "./replies/leaf.ts";
import { AgentLink } from "./http/link.ts";
import { meshQuestion } from "./replies/mesh.ts";
import { TokenSource } from "./http/token_source.ts";
import type { AgentOptions } from "./http/options.ts";
import { missingRights } from "./preflight.ts";
import { preparedQueryQuestion } from "./replies/prepared_query.ts";
import { keepRegistered } from "./register.ts";
import { registrationQuestion } from "./replies/registration.ts";
import { type RepeatQuestion, startRepeat } from "./watch/repeat.ts";
import { rootsQuestion } from "./replies/roots.ts";

export interface AgentDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The budget of connections to the agent. */
  readonly connections: number;
}

/** Opens nothing yet; fails with `config_invalid` where files cannot be used. */
export function createAgent(options: AgentOptions, deps: AgentDeps): Required<Agent> {
  const { clock, random, log, stats } = deps;
  const budget = new ConnectionBudget({ connections: deps.connections, clock, log, stats });
  const token = new TokenSource(options, { clock, log });
  const carrier = new AgentCarrier(options, clock);
  const client = new Client(options, {
    carrier,
    token,
    stats,
    onRefused: () => {
      budget.refused();
      carrier.dropIdle();
    },
  });
  const loopDeps: LoopDeps = { clock, random, log, stats, budget, link: new AgentLink() };
  const running = new Set<WatchHandle>();
  const closing = new AbortController();

  const tracked = (handle: WatchHandle): WatchHandle => {
    running.add(handle);
    return {
      get state() {
        return handle.state;
      },
      touch: () => handle.touch?.(),
      stop: () => {
        running.delete(handle);
        handle.stop();
      },
    };
  };
  const watch = <T>(question: PollQuestion<T>, sink: WatchSink<T>) =>
    tracked(startWatch(question, { sink, deps: loopDeps }));
  const repeat = <T>(question: RepeatQuestion<T>, sink: WatchSink<T>) =>
    tracked(startRepeat(question, { sink, deps: loopDeps }));
  const call = <T>(run: () => Promise<T>, signal: AbortSignal = closing.signal) =>
    budget.call("call", { signal, run });

  return {
    watchRegistration: (proxyId, sink) =>
      followRegistration({
        registration: registrationQuestion(client, proxyId),
        entryOf: (gateway) => ingressEntryQuestion(client, gateway),
        watch,
      }, sink),
    watchLeaf: (service, sink) => watch(leafQuestion(client, service), sink),
    watchRoots: (sink) => watch(rootsQuestion(client), sink),
    watchIntentions: (service, sink) => watch(intentionsQuestion(client, service), sink),
    watchDefaultPolicy: (request, sink) =>
      repeat(defaultPolicyQuestion(client, { ...request, log }), sink),
    watchChain: (request, sink) => watch(chainQuestion(client, request), sink),
    watchHealth: (request, sink) => watch(healthQuestion(client, request), sink),
    watchQuery: (request, sink) => repeat(preparedQueryQuestion(client, request), sink),
    watchMesh: (sink) => watch(meshQuestion(client), sink),
    watchJwtProvider: (name, sink) => watch(jwtProviderQuestion(client, name), sink),
    watchDefaults: (request, sink) => watch(defaultsQuestion(client, request), sink),
    findSidecar: (serviceId) => call(() => findSidecar(client, serviceId)),
    findProxy: (proxyId) => call(() => findProxy(client, proxyId)),
    findGateway: (service) => call(() => findGateway(client, service)),
    missingRights: (registration) => call(() => missingRights(client, registration, log)),
    authorize(request, { timeoutMs }) {
      // The wait for a lane counts, too: a connection is waiting for this.
      const deadline = new AbortController();
      const timer = clock.after(timeoutMs, () => deadline.abort());
      const ended = AbortSignal.any([deadline.signal, closing.signal]);
      const ask = { ...request, resource: "authorize", timeoutMs, signal: ended };
      return call(() => askAuthorize(client, ask), ended).finally(() => timer.cancel());
    },
    keepRegistered: (request, signal) =>
      keepRegistered(client, request, { signal, deps: { clock, random, log } }),
    watchStates: () =>
      [...running].map((handle) => handle.state).sort((a, b) => a.name < b.name ? -1 : 1),
    reloadFiles() {
      token.reload();
      carrier.reloadFiles();
    },
    close() {
      closing.abort();
      for (const handle of [...running]) handle.stop();
      running.clear();
      budget.close();
      carrier.close();
    },
  };
}
