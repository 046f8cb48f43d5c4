/** Our numbers under Envoy's names, for dashboards and alerts made for Envoy. Pure. @module */

import { addSamples, type Labels, type Sample } from "../../base/mod.ts";
import { LOCAL_APP } from "./clusters.ts";
import {
  clusterTags,
  type EnvoyFacts,
  type EnvoyListener,
  prefixTags,
  type UsedSecret,
} from "./envoy_facts.ts";
import { ENVOY_NAMES, type EnvoyName } from "./envoy_names.ts";
import { serverStats } from "./server_stats.ts";

export interface EnvoyStat {
  /** Envoy's own, with dots: `sds.web.update_success`. */
  readonly name: string;
  readonly kind: Sample["kind"];
  readonly value: number;
  readonly counts?: readonly number[];
  /** Name without `envoy_`; its variable parts are labels under the names of Envoy's tags. */
  readonly prometheus: string;
  /** Name with dots, without the parts in labels: `cluster.grpc.shop.Orders.Place.total`. */
  readonly tagged?: string;
  readonly labels: Labels;
}

/** Statistics that Envoy has of each secret from the start. */
const SECRET_ZEROES = [
  "init_fetch_timeout",
  "key_rotation_failed",
  "update_attempt",
  "update_failure",
  "update_rejected",
  "update_success",
] as const;

const DAY_MS = 86_400_000;
/** Consul's name of the agent at Envoy. */
const AGENT = "local_agent";
const HTTP_PREFIX = "envoy_http_conn_manager_prefix";

export function envoyStats(samples: readonly Sample[], facts: EnvoyFacts): readonly EnvoyStat[] {
  const stats = new Collected();
  for (const { name, updatedMs } of facts.secrets) {
    const scope = secretScope(name);
    for (const stat of SECRET_ZEROES) stats.add(scope, nameOf(stat), { kind: "counter", value: 0 });
    stats.add(scope, nameOf("update_time"), { kind: "gauge", value: updatedMs });
  }
  const rows = Map.groupBy(ENVOY_NAMES, ({ sample }) => sample);
  const speaksHttp = new Set(
    samples.filter(({ name }) => name === "http_requests_total").map(({ labels }) => keyOf(labels)),
  );
  for (const sample of samples) {
    const { labels } = sample;
    for (const row of rows.get(sample.name) ?? []) {
      if (row.http !== undefined && row.http !== speaksHttp.has(keyOf(labels))) continue;
      if (!fits(row, labels)) continue;
      for (const named of namesOf(row, labels)) {
        const shown = row.isZero ? { kind: sample.kind, value: 0 } : sample;
        for (const scope of scopesOf(row, labels, facts)) stats.add(scope, named, shown);
        if (row.scope !== "http" || row.sample !== "http_responses_total") continue;
        // Envoy has a copy of these for each address, which dashboards of Consul use.
        for (const { address, httpPrefix } of listenersOf(labels, facts)) {
          stats.add(listenerScope(address), copyFor(httpPrefix, named), sample);
        }
      }
    }
  }
  for (const { name, members: { total, healthy } } of facts.clusters) {
    const scope = clusterScope(name);
    stats.add(scope, nameOf("membership_total"), { kind: "gauge", value: total });
    stats.add(scope, nameOf("membership_healthy"), { kind: "gauge", value: healthy });
  }
  addSecretUpdates(stats, samples, facts);
  addExpirations(stats, facts);
  for (const [stat, value] of serverStats(samples, facts)) {
    stats.add(SERVER, nameOf(stat), { kind: "gauge", value });
  }
  return stats.all();
}

function keyOf({ direction, listener }: Labels): string {
  return `${direction} ${listener}`;
}

function fits({ labels = {}, notSds }: EnvoyName, given: Labels): boolean {
  if (notSds && given["source"]?.startsWith("sds ")) return false;
  return Object.entries(labels).every(([name, value]) => given[name] === value);
}

/** The part of a statistic's name before the statistic itself, and the tags that say the same. */
interface ScopedName {
  readonly scope: string;
  readonly tags: Labels;
}

const SERVER: ScopedName = { scope: "server", tags: {} };

function secretScope(name: string): ScopedName {
  const shown = segment(name);
  return { scope: `sds.${shown}`, tags: { envoy_xds_resource_name: shown } };
}

function listenerScope(address: string): ScopedName {
  const shown = segment(address);
  return { scope: `listener.${shown}`, tags: { envoy_listener_address: shown } };
}

function clusterScope(name: string): ScopedName {
  const shown = segment(name);
  return { scope: `cluster.${shown}`, tags: clusterTags(shown) };
}

function prefixScope(kind: "http" | "tcp", prefix: string): ScopedName {
  const shown = segment(prefix);
  const tag = kind === "http" ? HTTP_PREFIX : "envoy_tcp_prefix";
  return { scope: `${kind}.${shown}`, tags: prefixTags(tag, shown) };
}

function scopesOf(
  { scope, ofRoute }: EnvoyName,
  labels: Labels,
  facts: EnvoyFacts,
): readonly ScopedName[] {
  const { secrets, listeners, clusters } = facts;
  switch (scope) {
    case "secret":
      return labels["secret"] === undefined ? [] : [secretScope(labels["secret"])];
    case "source":
      return secrets.filter(({ source }) => source === labels["source"])
        .map(({ name }) => secretScope(name));
    case "listener":
      return listenersOf(labels, facts).map(({ address }) => listenerScope(address));
    case "credentials":
      return listeners.filter(({ credentials }) =>
        credentials !== undefined && credentials === labels["credentials"]
      ).map(({ address }) => listenerScope(address));
    case "http":
    case "tcp":
      return listenersOf(labels, facts).map(({ httpPrefix }) => prefixScope(scope, httpPrefix));
    case "cluster":
    case "behind": {
      const behind = clusterBehind(labels, facts);
      if (behind === undefined) return [];
      const { aggregate } = clusters.find(({ name }) => name === behind) ?? {};
      return [clusterScope(ofRoute ? aggregate ?? behind : behind)];
    }
    case "agent":
      return [clusterScope(AGENT)];
    case "control_plane":
      return [{ scope, tags: {} }];
    case "server":
      return [SERVER];
    case "metrics":
      return [prefixScope("http", labels["server"] ?? "")];
    case "target":
      return clusters.filter(({ targets }) => targets.includes(labels["target"] ?? ""))
        .map(({ name }) => clusterScope(name));
  }
}

function listenersOf(
  { listener, direction }: Labels,
  { listeners }: EnvoyFacts,
): readonly EnvoyListener[] {
  return listeners.filter((one) => one.name === listener && one.direction === direction);
}

/** A sample of a listener that names no cluster counts for the first one. */
function clusterBehind(labels: Labels, { clusters }: EnvoyFacts): string | undefined {
  const { cluster, listener = "", direction } = labels;
  if (direction === "inbound") return LOCAL_APP;
  const known = clusters.find(({ name, upstreams }) =>
    cluster === undefined ? upstreams.includes(listener) : name === cluster
  );
  return known?.name;
}

interface StatName {
  readonly dotted: string;
  readonly prometheus: string;
  readonly labels: Labels;
}

function namesOf({ stat, by }: EnvoyName, labels: Labels): readonly StatName[] {
  const { status = "" } = labels;
  if (by === undefined) return [nameOf(stat)];
  if (by === "call") {
    const { service = "other", method = "other" } = labels;
    return [status, "total", status === "0" ? "success" : "failure"].map((what) =>
      nameOf(`${stat}.${service}.${method}.${what}`)
    );
  }
  const group = status.charAt(0);
  const ofClass = {
    dotted: `${stat}_${group}xx`,
    prometheus: `${stat}_xx`,
    labels: { envoy_response_code_class: group },
  };
  if (by === "class" || !/^\d+$/.test(status)) return [ofClass];
  const own = { dotted: `${stat}_${status}`, prometheus: stat };
  return [ofClass, { ...own, labels: { envoy_response_code: status } }];
}

function nameOf(stat: string): StatName {
  return { dotted: stat, prometheus: stat.replaceAll(".", "_"), labels: {} };
}

function copyFor(httpPrefix: string, { dotted, prometheus, labels }: StatName): StatName {
  return {
    dotted: `http.${httpPrefix}.${dotted}`,
    prometheus: `http_${prometheus}`,
    labels: { ...prefixTags(HTTP_PREFIX, httpPrefix), ...labels },
  };
}

/** Number of times that a new secret renewed the TLS settings of a listener or cluster. */
function addSecretUpdates(
  stats: Collected,
  samples: readonly Sample[],
  { listeners, clusters }: EnvoyFacts,
): void {
  const updates = new Map<string, number>();
  for (const { name, labels: { secret, source }, value } of samples) {
    if (name === "secret_updates_total") updates.set(`${source}\u0000${secret}`, value);
  }
  const add = (scope: ScopedName, factory: string, secrets: readonly UsedSecret[]) => {
    if (secrets.length === 0) return;
    const counts = secrets.map(({ name, source }) => updates.get(`${source}\u0000${name}`) ?? 0);
    const value = counts.reduce((sum, count) => sum + count, 0);
    const stat = nameOf(`${factory}_ssl_socket_factory.ssl_context_update_by_sds`);
    stats.add(scope, stat, { kind: "counter", value });
  };
  for (const { address, secrets } of listeners) add(listenerScope(address), "server", secrets);
  for (const { name, secrets } of clusters) add(clusterScope(name), "client", secrets);
}

function addExpirations(stats: Collected, { listeners, clusters, nowMs }: EnvoyFacts): void {
  let firstMs = Infinity;
  const users = [
    ...listeners.map(({ address, secrets }) => ({ scope: listenerScope(address), secrets })),
    ...clusters.map(({ name, secrets }) => ({ scope: clusterScope(name), secrets })),
  ];
  for (const { scope, secrets } of users) {
    for (const { name, notAfterMs } of secrets) {
      if (notAfterMs === undefined) continue;
      firstMs = Math.min(firstMs, notAfterMs);
      const shown = segment(name);
      stats.add(scope, {
        dotted: `ssl.certificate.${shown}.expiration_unix_time_seconds`,
        prometheus: "ssl_certificate_expiration_unix_time_seconds",
        labels: { envoy_tls_certificate: shown },
      }, { kind: "gauge", value: Math.floor(notAfterMs / 1_000) });
    }
  }
  if (firstMs === Infinity) return;
  stats.add(SERVER, nameOf("days_until_first_cert_expiring"), {
    kind: "gauge",
    value: Math.max(Math.floor((firstMs - nowMs) / DAY_MS), 0),
  });
}

/** Numbers of one name are added up; of gauges about secrets the lowest is shown. */
class Collected {
  readonly #stats = new Map<string, EnvoyStat>();

  add(
    { scope, tags }: ScopedName,
    { dotted, prometheus, labels }: StatName,
    { kind, value, counts }: Pick<Sample, "kind" | "value" | "counts">,
  ): void {
    const [word = ""] = scope.split(".");
    const stat: EnvoyStat = {
      name: `${scope}.${dotted}`,
      kind,
      value,
      ...(counts && { counts }),
      prometheus: `${word}_${prometheus}`,
      ...(Object.keys(labels).length === 0 && { tagged: `${word}.${dotted}` }),
      labels: { ...tags, ...labels },
    };
    const seen = this.#stats.get(stat.name);
    if (!seen) return void this.#stats.set(stat.name, stat);
    const isState = kind === "gauge" && /^sds\.|\.ssl\.certificate\./.test(stat.name);
    this.#stats.set(
      stat.name,
      isState ? { ...seen, value: Math.min(seen.value, value) } : addSamples(seen, stat),
    );
  }

  all(): readonly EnvoyStat[] {
    return [...this.#stats.values()];
  }
}

/** A name as Envoy writes it in statistics: `127.0.0.1_80` for `127.0.0.1:80`. */
export function segment(name: string): string {
  return name.replace(/:\/\/|:\/|:|\s/g, "_");
}
