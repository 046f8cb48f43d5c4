/**
 * Tags that Consul has Envoy extract from the names of statistics: the service of a cluster and the upstream
 * of a listener. Dashboards filter by them.
 *
 * @module
 */

import type { Labels } from "../../base/mod.ts";

const SEGMENT = "[^.]+";

/** `HASH~SUBSET.SERVICE.NAMESPACE.PARTITION.DATACENTER.internal.TRUSTDOMAIN.consul`; any of HASH, SUBSET and PARTITION may be absent. */
const CLUSTER = new RegExp(
  `^((?:(${SEGMENT})~)?(?:(${SEGMENT})\\.)?(${SEGMENT})\\.(${SEGMENT})\\.(?:(${SEGMENT})\\.)?` +
    `(${SEGMENT}))\\.(internal[^.]*|query)\\.(${SEGMENT})\\.consul$`,
);

/** `upstream.SERVICE.NAMESPACE.PARTITION.DATACENTER` */
const UPSTREAM = new RegExp(
  `^(upstream)\\.(${SEGMENT})(?:\\.(${SEGMENT}))?(?:\\.(${SEGMENT}))?\\.(${SEGMENT})$`,
);

/** `shown`: the name as written in the name of the statistic. */
export function clusterTags(shown: string): Labels {
  const match = CLUSTER.exec(shown);
  if (!match) return { envoy_cluster_name: shown };
  const [, target = "", hash, subset, service, namespace, partition, datacenter, routing, domain] =
    match;
  return tagged({
    // Envoy's own tag ends at the first dot.
    envoy_cluster_name: shown.slice(0, shown.indexOf(".")),
    consul_destination_custom_hash: hash,
    consul_destination_service_subset: subset,
    consul_destination_service: service,
    consul_destination_namespace: namespace,
    consul_destination_partition: partition,
    consul_destination_datacenter: datacenter,
    consul_destination_routing_type: routing,
    consul_destination_trust_domain: domain,
    consul_destination_target: target,
    consul_destination_full_target: `${target}.${routing}.${domain}`,
  });
}

/** Tags of the prefix in `http.PREFIX.` and `tcp.PREFIX.`; `tag`: Envoy's name for it. */
export function prefixTags(tag: string, shown: string): Labels {
  const [, prefix, service, namespace, partition, datacenter] = UPSTREAM.exec(shown) ?? [];
  if (prefix === undefined) return { [tag]: shown };
  return tagged({
    [tag]: prefix,
    consul_upstream_service: service,
    consul_upstream_namespace: namespace,
    consul_upstream_partition: partition,
    consul_upstream_datacenter: datacenter,
  });
}

function tagged(labels: Readonly<Record<string, string | undefined>>): Labels {
  const known = Object.entries(labels).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as Labels;
}

/** `envoy_stats_tags`: `name=value`, or a name alone, which is 1. */
export function configuredTags(written: readonly string[]): Labels {
  const tags = written.map((tag) => {
    const at = tag.indexOf("=");
    const name = (at < 0 ? tag : tag.slice(0, at)).toLowerCase();
    return [name, at < 0 ? "1" : tag.slice(at + 1)] as const;
  });
  return Object.fromEntries(tags.filter(([name]) => name !== ""));
}

/** The configured tags as labels of Prometheus, whose names have fewer characters. */
export function configuredLabels(written: readonly string[]): Labels {
  const tags = Object.entries(configuredTags(written));
  return Object.fromEntries(tags.map(([name, value]) => [
    name.replace(/[^a-z0-9_]/g, "_").replace(/^(?=\d)/, "_"),
    value,
  ]));
}
