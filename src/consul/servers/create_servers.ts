/**
 * Puts session, client, token and watches together into an {@link Agent} that has no agent behind it.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { Agent } from "../agent.ts";
import { RunningWatches } from "../running_watches.ts";
import { ClusterPin } from "../cluster_pin.ts";
import type { AgentDeps } from "../create_agent.ts";
import { followRegistration } from "../follow_registration.ts";
import { AgentLink } from "../http/link.ts";
import { TokenSource } from "../http/token_source.ts";
import { missingRights } from "../preflight.ts";
import { gatewayServicesQuestion } from "../replies/gateway_services.ts";
import { ingressEntryQuestion } from "../replies/ingress.ts";
import { askFailingChecks } from "../replies/own_instance.ts";
import { ConnectionBudget } from "../watch/budget.ts";
import { serversWatchTerms } from "../watch/watch_terms.ts";
import { serversDefaultPolicyQuestion } from "./catalog/default_policy.ts";
import { findGateway, findProxy, findSidecar } from "./catalog/find_on_node.ts";
import type { NodeCatalog } from "./catalog/node_catalog.ts";
import { ownRegistrationQuestion } from "./catalog/own_registration.ts";
import { keepRegistered } from "./catalog/keep/keep_registered.ts";
import { createLoginCalls } from "./login/login_calls.ts";
import { LoginToken } from "./login/login_token.ts";
import { createServersClient } from "./servers_client.ts";
import { createServersSession } from "./session.ts";
import { RootsFeed } from "./trust/server_roots.ts";
import { watchSignedLeaf } from "./trust/signed_leaf.ts";
import type { ServersOptions } from "./types.ts";

/** Of one HTTP/2 connection, of which Consul allows 250. */
const STREAMS = 200;
/** By HTTP/1.1: whole fleets ask the same few servers. */
const PLAIN_CONNECTIONS = 12;

/** Opens nothing yet; fails with `config_invalid` where files cannot be used. */
export function createServers(options: ServersOptions, deps: AgentDeps): Required<Agent> {
  const { clock, random, log, stats, engine } = deps;
  const link = new AgentLink();
  const budget = new ConnectionBudget({
    connections: options.tls ? STREAMS : Math.min(PLAIN_CONNECTIONS, deps.connections),
    modest: !options.tls,
    ...{ clock, log, stats },
  });
  const given = new TokenSource(options, { clock, log });
  const login = options.login && new LoginToken(options.login.authMethod, { clock, random, log });
  const token = login ?? given;
  const cluster = new ClusterPin();
  const servers = createServersSession(options, { ...deps, token, cluster });
  const client = createServersClient(options, {
    ...{ servers, token, engine, clock, random, log, stats, link, cluster },
    onRefused: () => budget.refused(),
  });
  if (options.login && login) {
    login.start(createLoginCalls(options.login, { carrier: client.carrier, stats }));
    servers.onMove(() => login.moved());
  }
  const asking = new RunningWatches(client, {
    clock,
    random,
    log,
    stats,
    budget,
    link,
    footing: serversWatchTerms(link),
  });
  const catalog: NodeCatalog = { client, servers, node: options.node };
  const roots = new RootsFeed({ servers, cluster, clock, log, stats });
  /** The certificate's, too: the proxy's own, which its registration tells. */
  let { datacenter } = options;

  return {
    ...asking.alike,
    called: "consul",
    watchRegistration: (proxyId, sink) =>
      followRegistration({
        registration: ownRegistrationQuestion(catalog, proxyId),
        entryOf: (gateway) => ingressEntryQuestion(client, gateway),
        servicesOf: (gateway) => gatewayServicesQuestion(client, gateway),
        repeat: (question, to) => asking.repeat(question, to),
        watch: (question, to) => asking.watch(question, to),
      }, {
        ...sink,
        onValue(registration) {
          datacenter ||= registration.datacenter;
          sink.onValue(registration);
        },
      }),
    watchRoots: (sink) => asking.track(roots.watch(sink)),
    watchLeaf: (service, sink) =>
      asking.track(
        watchSignedLeaf({ service, datacenter }, {
          sink,
          deps: { servers, roots, clock, random, log, stats },
        }),
      ),
    askFailingChecks: (instance) =>
      asking.call(() =>
        askFailingChecks(client, instance, { ...asking.askTerms, node: options.node })
      ),
    findSidecar: (serviceId) => asking.call(() => findSidecar(catalog, serviceId)),
    findProxy: (proxyId) => asking.call(() => findProxy(catalog, proxyId)),
    findGateway: (service) => asking.call(() => findGateway(catalog, service)),
    missingRights: (registration) =>
      asking.call(() => missingRights(client, registration, { log, node: options.node })),
    authorize: () =>
      Promise.reject(new ProxyError("internal", "servers are not asked about connections")),
    keepRegistered: (request, signals) =>
      keepRegistered(catalog, request, {
        ...signals,
        deps: {
          ...{ clock, random, log, engine },
          watch: (question, sink) => asking.watch(question, sink),
        },
      }),
    watchDefaultPolicy: (request, sink) =>
      asking.repeat(
        serversDefaultPolicyQuestion(client, { ...request, servers, clock, log }),
        sink,
      ),
    pinCluster: (pinned) => cluster.set(pinned),
    serversStatus: () => ({ ...servers.status, ...(login ? { login: login.status } : {}) }),
    reloadFiles() {
      given.reload();
      client.carrier.reloadFiles();
    },
    leave: () => login?.end() ?? Promise.resolve(),
    close() {
      asking.close();
      client.carrier.close();
      servers.close();
    },
  };
}
