/** `/config_dump`. Credentials are listed by field: none is shown without a decision. @module */

import type { Intention } from "../policy/mod.ts";
import {
  type ChainPart,
  INBOUND_KEY,
  type PluginUse,
  type Snapshot,
  type TelemetryCollector,
} from "../snapshot/mod.ts";
import { NOT_SHOWN } from "./redact.ts";
import { envoyConfigs } from "./envoy/dump/cluster_configs.ts";
import { secretPartsShown } from "./secrets/secrets_dump.ts";
import type { AdminView } from "./view.ts";

export function configDump(
  view: AdminView,
  options: { readonly withEndpoints: boolean },
): Readonly<Record<string, unknown>> {
  const snapshot = view.snapshot();
  const { version, commit, engine } = view.info;
  return {
    postern: { version, commit, engine },
    options: view.info.options,
    source: view.source() ?? null,
    refused: view.refused(),
    snapshot: snapshot ? shownSnapshot(snapshot) : null,
    configs: envoyConfigs(view, options),
  };
}

function shownSnapshot(snapshot: Snapshot): Readonly<Record<string, unknown>> {
  const { version, service, proxyId, datacenter, credentials, policy, tls } = snapshot;
  const { accessLog, tracing, telemetry } = snapshot;
  const inbound = snapshot.inbound[INBOUND_KEY];
  return {
    version,
    service,
    proxyId,
    datacenter,
    credentials: credentials && {
      version: credentials.version,
      uri: credentials.uri,
      serial: credentials.serial,
      notBeforeMs: credentials.notBeforeMs,
      notAfterMs: credentials.notAfterMs,
      trustDomains: credentials.trustDomains,
      certPem: credentials.certPem,
      rootPems: credentials.rootPems,
    },
    ...secretPartsShown(snapshot),
    policy: { ...policy, intentions: policy.intentions.map(shownIntention) },
    tls,
    accessLog,
    tracing: tracing && shownExport(tracing),
    metrics: telemetry?.metrics && shownExport(telemetry.metrics),
    logs: telemetry?.logs && shownExport(telemetry.logs),
    inbound: inbound ? withPlugins(inbound) : null,
    exposed: snapshot.exposed,
    edges: Object.fromEntries(
      Object.entries(snapshot.edges).map(([id, part]) => [id, withPlugins(part)] as const),
    ),
    upstreams: Object.fromEntries(
      Object.entries(snapshot.upstreams).map(([id, { chain, ...part }]) =>
        [id, { ...withPlugins(part), ...chainShown(snapshot.chains[chain]) }] as const
      ),
    ),
    targets: snapshot.targets,
  };
}

/** Header fields of a collector are mostly keys. */
function shownExport<E extends { readonly collector: TelemetryCollector }>(sent: E): E {
  const names = Object.keys(sent.collector.headers);
  const headers = Object.fromEntries(names.map((name) => [name, NOT_SHOWN]));
  return { ...sent, collector: { ...sent.collector, headers } };
}

/** A plugin's configuration may hold a key, under any name. */
function withPlugins<P extends { readonly plugins: readonly PluginUse[] }>(part: P): P {
  const hidden = (use: PluginUse) => {
    const routes = use.routes && Object.keys(use.routes).map((name) => [name, NOT_SHOWN] as const);
    return { ...use, config: NOT_SHOWN, ...routes && { routes: Object.fromEntries(routes) } };
  };
  return { ...part, plugins: part.plugins.map(hidden) };
}

/** A chain without a choice is shown as its resolver. */
function chainShown(chain: ChainPart | undefined): object | undefined {
  if (!chain) return undefined;
  const { resolvers } = chain;
  const [only, ...others] = Object.values(resolvers);
  if (chain.routes.length === 1 && others.length === 0) return only;
  // A header match may hold a token, a plugin's configuration a key.
  const routes = chain.routes.map(({ match, plugins, ...route }) => ({
    ...route,
    match: match &&
      { ...match, headers: match.headers.map((one) => ({ ...one, value: NOT_SHOWN })) },
    plugins: Object.fromEntries(Object.keys(plugins).map((name) => [name, NOT_SHOWN] as const)),
  }));
  return { routes, resolvers };
}

/** The header value that a permission requires may be a token. */
function shownIntention({ permissions, ...intention }: Intention): Intention {
  if (!permissions) return intention;
  const shown = permissions.map((permission) => ({
    ...permission,
    headers: permission.headers.map((header) =>
      header.value === "" ? header : { ...header, value: NOT_SHOWN }
    ),
  }));
  return { ...intention, permissions: shown };
}
