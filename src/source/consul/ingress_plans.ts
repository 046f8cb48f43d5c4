/**
 * TLS of an ingress gateway's listeners: its config entry names the SDS servers, which its registration
 * describes, as `postern_tls.sds_clusters` or among the static clusters that were written for Envoy.
 *
 * @module
 */

import type { IngressTlsDeclaration } from "../../consul/mod.ts";
import {
  ingressTlsPlan,
  type ParsedSdsServers,
  type ParsedTls,
  parseSdsServers,
  type SdsServer,
} from "../../secrets/mod.ts";
import { type XdsNode } from "../../xds/mod.ts";
import { isRecord, type Problem } from "../../base/schema.ts";

const CLUSTERS = "envoy_extra_static_clusters_json";

interface IngressServers {
  readonly servers: Readonly<Record<string, SdsServer>>;
  /** Clusters that are no SDS servers to us, and why: an error where a listener names one. */
  readonly unusable: ReadonlyMap<string, readonly Problem[]>;
  /** Problems of `postern_tls.sds_clusters`. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
}

/** `own` counts before a cluster of the same name. */
export function ingressServers(
  clusters: readonly unknown[],
  { own, node }: { readonly own: ParsedSdsServers; readonly node: XdsNode },
): IngressServers {
  const servers = new Map<string, SdsServer>();
  const unusable = new Map<string, readonly Problem[]>();
  for (const cluster of clusters) {
    if (!isRecord(cluster) || typeof cluster.name !== "string" || cluster.name === "") continue;
    const { name } = cluster;
    const parsed = parseSdsServers({ [name]: cluster }, { path: [CLUSTERS], node });
    if (parsed.kind === "invalid") unusable.set(name, parsed.problems);
    else for (const server of Object.values(parsed.servers)) servers.set(name, server);
  }
  for (const [name, server] of own.kind === "valid" ? Object.entries(own.servers) : []) {
    servers.set(name, server);
  }
  return {
    servers: Object.fromEntries(servers),
    unusable,
    problems: own.kind === "invalid" ? own.problems : [],
    warnings: [...unusable.keys()].map((name) =>
      `The cluster ${JSON.stringify(name)} of ${CLUSTERS} is ignored: it is no SDS server that ` +
      "listeners could take certificates from"
    ),
  };
}

/** `plain`: its callers need no TLS. */
export function readIngressTls(
  declared: IngressTlsDeclaration,
  { servers, unusable, problems }: IngressServers,
): ParsedTls | { readonly kind: "plain" } {
  const { path, index } = declared;
  const read = ingressTlsPlan(declared.entry, { path, sdsServers: servers, unusable });
  if (read.kind === "invalid") {
    // The listener was parsed as the only one: its own index goes into the path.
    const at = path.length;
    const here = read.problems.map((problem) => ({
      ...problem,
      path: problem.path[at] === "Listeners" ? problem.path.with(at + 1, index) : problem.path,
    }));
    return { kind: "invalid", problems: [...problems, ...here] };
  }
  const [plan] = read.plans;
  if (plan) return { kind: "valid", plan, warnings: read.warnings };
  if (!declared.enabled) return { kind: "plain" };
  const message = "cannot be served: the agent's HTTP API has no certificate for the gateway's " +
    "host names; use TLS.SDS, or a Postern configuration file with listenerTls";
  return { kind: "invalid", problems: [{ path: [...path, "Listeners", index, "TLS"], message }] };
}
