/** Consul through a client agent. @module */

import type { DialEngine } from "../http/mod.ts";
import { findGateway, findProxy, findSidecar } from "./find_sidecar.ts";
import { RegistrationWatch } from "./follow_registration.ts";
import { Client } from "./http/client.ts";
import { ClusterPin, ClusterProof } from "./http/cluster.ts";
import type { AgentOptions } from "./http/options.ts";
import { TokenSource } from "./http/token.ts";
import { createAgentCarrier } from "./http/transport.ts";
import type { CommonDeps, Consul } from "./model/consul.ts";
import { checkRights } from "./preflight.ts";
import { keepRegistered } from "./register.ts";
import { askFailingChecks, askNode } from "./replies/catalog_reads.ts";
import { judgeCluster, leafQuestion, rootsQuestion } from "./replies/certificates.ts";
import { askAuthorize, defaultPolicyQuestion } from "./replies/default_policy.ts";
import { exposedChecksQuestion } from "./replies/exposed_checks.ts";
import { registrationQuestion } from "./replies/registration.ts";
import { RunningWatches } from "./running_watches.ts";
import { ConnectionBudget } from "./watch/budget.ts";
import { ConsulReach } from "./watch/consul_reach.ts";
import { countConnections } from "./watch/count_connections.ts";
import { agentWatchTerms } from "./watch/watch_terms.ts";

export interface ConsulDeps extends CommonDeps {
  readonly engine: DialEngine;
  /** The most connections to the agent, or to servers without TLS. */
  readonly connections: number;
}

/** Ten sidecars on one host then use 120 of the 200 connections that an agent allows. */
const START_CONNECTIONS = 12;

/** Opens nothing yet; fails with `config_invalid` where files cannot be used. */
export function createAgent(options: AgentOptions, deps: ConsulDeps): Required<Consul> {
  const { engine, clock, random, log, stats, connections: limit } = deps;
  const countOfHost = () => countConnections(options.address);
  const budget = new ConnectionBudget({
    ...deps,
    connections: Math.min(START_CONNECTIONS, limit),
    growth: { limit, random, countOfHost },
  });
  const token = new TokenSource(options, { clock, log });
  const carrier = createAgentCarrier(options, { engine, clock });
  const reach = new ConsulReach();
  const cluster = new ClusterPin();
  const proof = new ClusterProof({ pin: cluster, reach, ask: () => judgeCluster(client, cluster) });
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
  const terms = agentWatchTerms(reach);
  const watches = new RunningWatches(client, { ...deps, budget, reach, terms });

  return {
    ...watches.common,
    called: "agent",
    watchRegistration: (proxyId, sink) =>
      new RegistrationWatch({
        client,
        watches,
        registration: registrationQuestion(client, proxyId),
        checksOf: (serviceId) => exposedChecksQuestion(client, serviceId),
      }, sink),
    watchLeaf: (service, sink) => watches.watch(leafQuestion(client, service), sink),
    watchRoots: (sink) => watches.watch(rootsQuestion(client, cluster), sink),
    watchDefaultPolicy: (request, sink) =>
      watches.repeat(defaultPolicyQuestion(client, { ...request, log }), sink),
    askFailingChecks: (instance) =>
      watches.call(async () => {
        const node = await askNode(client, instance.proxyId, watches.askTerms);
        return await askFailingChecks(client, instance, { ...watches.askTerms, node });
      }),
    findSidecar: (serviceId) => watches.call(() => findSidecar(client, serviceId)),
    findProxy: (proxyId) => watches.call(() => findProxy(client, proxyId)),
    findGateway: (service) => watches.call(() => findGateway(client, service)),
    checkRights: (registration) => watches.call(() => checkRights(client, registration, { log })),
    authorize(request, { timeoutMs }) {
      // The wait for a lane counts, too: a connection waits for the verdict.
      const deadline = new AbortController();
      const timer = clock.after(timeoutMs, () => deadline.abort());
      const signal = AbortSignal.any([deadline.signal, watches.closing]);
      const call = { ...request, resource: "authorize", timeoutMs, signal };
      return watches.call(() => askAuthorize(client, call), signal).finally(() => timer.cancel());
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
      watches.close();
      carrier.close();
    },
  };
}
