/**
 * Puts client, budget and watches together into an {@link Agent}.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../base/mod.ts";
import type { DialEngine } from "../http/mod.ts";
import type { Agent } from "./agent.ts";
import { RunningWatches } from "./running_watches.ts";
import { askAuthorize } from "./replies/authorize.ts";
import { ConnectionBudget } from "./watch/budget.ts";
import { agentWatchTerms } from "./watch/watch_terms.ts";
import { ClusterPin } from "./cluster_pin.ts";
import { createAgentCarrier } from "./http/agent_carrier.ts";
import { Client } from "./http/client.ts";
import { ClusterProof } from "./http/cluster_proof.ts";
import { countConnections } from "./http/count_connections.ts";
import { defaultPolicyQuestion } from "./replies/default_policy.ts";
import { findGateway, findProxy, findSidecar } from "./find_sidecar.ts";
import { followRegistration } from "./follow_registration.ts";
import { exposedChecksQuestion } from "./replies/exposed_checks.ts";
import { gatewayServicesQuestion } from "./replies/gateway_services.ts";
import { ingressEntryQuestion } from "./replies/ingress.ts";
import { leafQuestion } from "./replies/leaf.ts";
import { AgentLink } from "./http/link.ts";
import { TokenSource } from "./http/token_source.ts";
import type { AgentOptions } from "./http/options.ts";
import { missingRights } from "./preflight.ts";
import { keepRegistered } from "./register.ts";
import { askFailingChecks, askNode } from "./replies/own_instance.ts";
import { registrationQuestion } from "./replies/registration.ts";
import { judgeCluster, rootsQuestion } from "./replies/roots.ts";

export interface AgentDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** The most connections to the agent. */
  readonly connections: number;
}

/** Ten sidecars on one host then use 120 of the 200 connections that an agent allows. */
const START_CONNECTIONS = 12;

/** Opens nothing yet; fails with `config_invalid` where files cannot be used. */
export function createAgent(options: AgentOptions, deps: AgentDeps): Required<Agent> {
  const { engine, clock, random, log, stats } = deps;
  const budget = new ConnectionBudget({
    connections: Math.min(START_CONNECTIONS, deps.connections),
    growth: {
      limit: deps.connections,
      random,
      countOfHost: () => countConnections(options.address),
    },
    ...{ clock, log, stats },
  });
  const token = new TokenSource(options, { clock, log });
  const carrier = createAgentCarrier(options, { engine, clock });
  const link = new AgentLink();
  const cluster = new ClusterPin();
  const proof = new ClusterProof({ pin: cluster, link, ask: () => judgeCluster(client, cluster) });
  const client: Client = new Client(options, {
    carrier,
    token,
    stats,
    proof,
    onFailure(code) {
      if (code !== "agent_overloaded") return;
      budget.refused();
      carrier.dropIdle();
    },
  });
  const footing = agentWatchTerms(link);
  const asking = new RunningWatches(client, { clock, random, log, stats, budget, link, footing });

  return {
    ...asking.alike,
    called: "agent",
    watchRegistration: (proxyId, sink) =>
      followRegistration({
        registration: registrationQuestion(client, proxyId),
        entryOf: (gateway) => ingressEntryQuestion(client, gateway),
        servicesOf: (gateway) => gatewayServicesQuestion(client, gateway),
        checksOf: (serviceId) => exposedChecksQuestion(client, serviceId),
        repeat: (question, to) => asking.repeat(question, to),
        watch: (question, to) => asking.watch(question, to),
      }, sink),
    watchLeaf: (service, sink) => asking.watch(leafQuestion(client, service), sink),
    watchRoots: (sink) => asking.watch(rootsQuestion(client, cluster), sink),
    watchDefaultPolicy: (request, sink) =>
      asking.repeat(defaultPolicyQuestion(client, { ...request, log }), sink),
    askFailingChecks: (instance) =>
      asking.call(async () => {
        const node = await askNode(client, instance.proxyId, asking.askTerms);
        return await askFailingChecks(client, instance, { ...asking.askTerms, node });
      }),
    findSidecar: (serviceId) => asking.call(() => findSidecar(client, serviceId)),
    findProxy: (proxyId) => asking.call(() => findProxy(client, proxyId)),
    findGateway: (service) => asking.call(() => findGateway(client, service)),
    missingRights: (registration) =>
      asking.call(() => missingRights(client, registration, { log })),
    authorize(request, { timeoutMs }) {
      // The wait for a lane counts, too: a connection is waiting for this.
      const deadline = new AbortController();
      const timer = clock.after(timeoutMs, () => deadline.abort());
      const ended = AbortSignal.any([deadline.signal, asking.closing]);
      const ask = { ...request, resource: "authorize", timeoutMs, signal: ended };
      return asking.call(() => askAuthorize(client, ask), ended).finally(() => timer.cancel());
    },
    keepRegistered({ registration: { id, service, bind } }, signals) {
      const entry = { id, name: `${service}-proxy`, destination: service, ...bind };
      return keepRegistered(client, entry, { ...signals, deps: { clock, random, log } });
    },
    pinCluster: (pinned) => cluster.set(pinned),
    serversStatus: () => undefined,
    reloadFiles() {
      token.reload();
      carrier.reloadFiles();
    },
    leave: () => Promise.resolve(),
    close() {
      asking.close();
      carrier.close();
    },
  };
}
