/** Consul through its servers, without an agent. @module */

import { ProxyError } from "../base/mod.ts";
import type { ConsulDeps } from "./create_agent.ts";
import { RegistrationWatch } from "./follow_registration.ts";
import { ClusterPin } from "./http/cluster.ts";
import { TokenSource } from "./http/token.ts";
import type { Consul } from "./model/consul.ts";
import { checkRights } from "./preflight.ts";
import { askFailingChecks } from "./replies/catalog_reads.ts";
import { RunningWatches } from "./running_watches.ts";
import { agreedPolicyQuestion } from "./servers/catalog/agreed_policy.ts";
import { findGateway, findProxy, findSidecar } from "./servers/catalog/find_on_node.ts";
import { keepRegistered } from "./servers/catalog/keep/keep_registered.ts";
import { type NodeCatalog, ownRegistrationQuestion } from "./servers/catalog/node_catalog.ts";
import { createLoginCalls } from "./servers/login/login_calls.ts";
import { LoginToken } from "./servers/login/login_token.ts";
import { createServersClient } from "./servers/servers_client.ts";
import { ServersSession } from "./servers/session.ts";
import { RootsFeed } from "./servers/trust/server_roots.ts";
import { watchSignedLeaf } from "./servers/trust/signed_leaf.ts";
import type { ServersOptions } from "./servers/types.ts";
import { ConnectionBudget } from "./watch/budget.ts";
import { ConsulReach } from "./watch/consul_reach.ts";
import { serversWatchTerms } from "./watch/watch_terms.ts";

/** Streams of one HTTP/2 connection, of which Consul allows 250. */
const STREAMS = 200;
/** Over HTTP/1.1: whole fleets ask the same few servers. */
const PLAIN_CONNECTIONS = 12;

/** Dials at once; fails with `config_invalid` where files cannot be used. */
export function createServers(options: ServersOptions, deps: ConsulDeps): Required<Consul> {
  const { clock, log, stats } = deps;
  const reach = new ConsulReach();
  const budget = new ConnectionBudget({
    ...deps,
    connections: options.tls ? STREAMS : Math.min(PLAIN_CONNECTIONS, deps.connections),
    modest: !options.tls,
  });
  const given = new TokenSource(options, { clock, log });
  const login = options.login && new LoginToken(options.login.authMethod, deps);
  const token = login ?? given;
  const cluster = new ClusterPin();
  const servers = new ServersSession(options, { ...deps, token, cluster });
  const client = createServersClient(options, {
    ...deps,
    servers,
    token,
    reach,
    cluster,
    onRefused: () => budget.refused(),
  });
  if (options.login && login) {
    login.start(createLoginCalls(options.login, { carrier: client.carrier, stats }));
    servers.onMove(() => login.moved());
  }
  const terms = serversWatchTerms(reach);
  const watches = new RunningWatches(client, { ...deps, budget, reach, terms });
  const catalog: NodeCatalog = { client, servers, node: options.node };
  const roots = new RootsFeed({ ...deps, servers, cluster });
  /** The datacenter of calls and of the certificate; the registration's, where no flag gives one. */
  let { datacenter } = options;

  return {
    ...watches.common,
    called: "consul",
    watchRegistration: (proxyId, sink) =>
      new RegistrationWatch({
        client,
        watches,
        registration: ownRegistrationQuestion(catalog, proxyId),
      }, {
        onValue(registration) {
          datacenter ||= registration.datacenter;
          sink.onValue(registration);
        },
        onError: (error) => sink.onError(error),
      }),
    watchRoots: (sink) => watches.track(roots.watch(sink)),
    watchLeaf: (service, sink) =>
      watches.track(
        watchSignedLeaf({ service, datacenter }, { sink, deps: { ...deps, servers, roots } }),
      ),
    askFailingChecks: (instance) =>
      watches.call(() =>
        askFailingChecks(client, instance, { ...watches.askTerms, node: options.node })
      ),
    findSidecar: (serviceId) => watches.call(() => findSidecar(catalog, serviceId)),
    findProxy: (proxyId) => watches.call(() => findProxy(catalog, proxyId)),
    findGateway: (service) => watches.call(() => findGateway(catalog, service)),
    checkRights: (registration) =>
      watches.call(() => checkRights(client, registration, { log, node: options.node })),
    authorize: () =>
      Promise.reject(new ProxyError("internal", "servers are not asked about connections")),
    keepRegistered: (request, signals) =>
      keepRegistered(catalog, request, {
        ...signals,
        deps: { ...deps, watch: (question, sink) => watches.watch(question, sink) },
      }),
    watchDefaultPolicy: (request, sink) =>
      watches.repeat(agreedPolicyQuestion(client, { ...request, servers, clock, log }), sink),
    pinCluster: (pinned) => cluster.set(pinned),
    serversStatus: () => ({ ...servers.status, ...(login ? { login: login.status } : {}) }),
    reloadFiles() {
      given.reload();
      client.carrier.reloadFiles();
    },
    leave: () => login?.end() ?? Promise.resolve(),
    close() {
      watches.close();
      client.carrier.close();
      servers.close();
    },
  };
}
