/**
 * `configs` of `/config_dump`: the state in force in Envoy's format, for Consul's tools and for scripts that
 * read Envoy's dump. State that Envoy has no message for is in the rest of the page.
 *
 * @module
 */

import type { Snapshot } from "../../../snapshot/mod.ts";
import { secretsConfigDump } from "../../secrets/secrets_dump.ts";
import type { AdminView } from "../../view.ts";
import { clustersOf } from "../clusters.ts";
import type { Json } from "../json.ts";
import { clusterConfig, endpointConfig } from "./cluster_configs.ts";
import { listenerConfigs, namedRoutes } from "./listener_configs.ts";

const ADMIN = "type.googleapis.com/envoy.admin.v3";

/** Dumps in Envoy's order, which scripts rely on. */
export function envoyConfigs(
  view: AdminView,
  { withEndpoints }: { readonly withEndpoints: boolean },
): readonly Json[] {
  const snapshot = view.snapshot();
  return [
    bootstrap(view, snapshot),
    {
      "@type": `${ADMIN}.ClustersConfigDump`,
      dynamic_active_clusters: clustersOf(snapshot).flatMap((cluster) =>
        snapshot
          ? [{ version_info: String(snapshot.version), cluster: clusterConfig(cluster, snapshot) }]
          : []
      ),
    },
    ...(withEndpoints
      ? [{
        "@type": `${ADMIN}.EndpointsConfigDump`,
        dynamic_endpoint_configs: clustersOf(snapshot).map(endpointConfig)
          .filter((config) => config !== undefined)
          .map((config) => ({ endpoint_config: config })),
      }]
      : []),
    {
      "@type": `${ADMIN}.ListenersConfigDump`,
      dynamic_listeners: (snapshot ? listenerConfigs(snapshot, snapshot.datacenter) : []).map(
        ({ name, version, config }) => ({
          name,
          active_state: { version_info: String(version), listener: config },
        }),
      ),
    },
    { "@type": `${ADMIN}.ScopedRoutesConfigDump` },
    {
      "@type": `${ADMIN}.RoutesConfigDump`,
      dynamic_route_configs: (snapshot ? namedRoutes(snapshot) : []).map(({ version, config }) => ({
        version_info: String(version),
        route_config: config,
      })),
    },
    secretsConfigDump(view),
  ];
}

function bootstrap(view: AdminView, snapshot: Snapshot | undefined): Json {
  const interval = view.source()?.metrics?.flushInterval ?? "";
  return {
    "@type": `${ADMIN}.BootstrapConfigDump`,
    bootstrap: {
      node: {
        id: snapshot?.proxyId ?? "",
        cluster: snapshot?.service ?? "",
        metadata: { namespace: "default", partition: "default" },
        user_agent_name: "postern",
      },
      ...(interval !== "" && { stats_flush_interval: interval }),
    },
  };
}
