/**
 * Our numbers under the names that Envoy gives them, so that dashboards and alerts made for Envoy work
 * as they are. Pure: from samples, and from what the snapshot says about who uses what.
 *
 * @module
 */

import { addSamples, type Labels, type Sample } from "../../base/mod.ts";
import { LOCAL_APP } from "./clusters.ts";
import { ENVOY_NAMES, type EnvoyName } from "./envoy_names.ts";
import { clusterTags, prefixTags } from "./tags.ts";

export interface EnvoyStat {
  /** Envoy's own, with dots: `sds.web.update_success`. */
  readonly name: string;
  readonly kind: Sample["kind"];
  readonly value: number;
  readonly counts?: readonly number[];
  /** Without `envoy_`; what varies is in the labels, under the names of Envoy's tags. */
  readonly prometheus: string;
  /** The same with dots, where `name` says it: `cluster.grpc.shop.Orders.Place.total`. */
  readonly tagged?: string;
  readonly labels: Labels;
}

/** A certificate or CA in use. */
export interface UsedSecret {
  readonly name: string;
  readonly source: string;
  /** Of certificates. */
  readonly notAfterMs?: number;
}

export interface EnvoyListener {
  /** The label `listener` of our samples. */
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  /** As in `/listeners`. */
  readonly address: string;
  /** As Consul names it to Envoy: `public_listener`, `upstream.db.default.default.dc1`. */
  readonly httpPrefix: string;
  /** Those of its own TLS; `undefined`: callers speak plainly, or it has the proxy's own. */
  readonly credentials: string | undefined;
  readonly secrets: readonly UsedSecret[];
}

export interface EnvoyCluster {
  /** Ids of the upstreams that lead there: the label `listener` of our samples. */
  readonly upstreams: readonly string[];
  /** As Consul names it to Envoy, the label `cluster` of our samples. */
  readonly name: string;
  readonly targets: readonly string[];
  /** The one that leads to it and others, as routes name it. */
  readonly aggregate?: string;
  /** Endpoints of those, and how many of them may be picked. */
  readonly members: { readonly total: number; readonly healthy: number };
  readonly secrets: readonly UsedSecret[];
}

export interface EnvoySecret {
  readonly name: string;
  readonly source: string;
  readonly updatedMs: number;
}

export interface EnvoyFacts {
  readonly listeners: readonly EnvoyListener[];
  readonly clusters: readonly EnvoyCluster[];
  readonly secrets: readonly EnvoySecret[];
  /** Wall clock. */
  readonly nowMs: number;
}

/** What every secret has in Envoy from the start. */
const SECRET_ZEROES = [
  "init_fetch_timeout",
  "key_rotation_failed",
  "update_attempt",
  "update_failure",
  "update_rejected",
  "update_success",
] as const;

const DAY_MS = 86_400_000;
/** As Consul names it to Envoy. */
const AGENT = "local_agent";

export function envoyStats(samples: readonly Sample[], facts: EnvoyFacts): readonly EnvoyStat[] {
  const stats = new Collected();
  for (const { name, updatedMs } of facts.secrets) {
    for (const stat of SECRET_ZEROES) stats.secret(name, stat, { kind: "counter", value: 0 });
    stats.secret(name, "update_time", { kind: "gauge", value: updatedMs });
  }
  const bySample = new Map<string, EnvoyName[]>();
  for (const row of ENVOY_NAMES) {
    const rows = bySample.get(row.sample);
    if (rows) rows.push(row);
    else bySample.set(row.sample, [row]);
  }
  const speaksHttp = new Set(
    samples.filter(({ name }) => name === "http_requests_total").map(({ labels }) => keyOf(labels)),
  );
  for (const sample of samples) {
    for (const row of bySample.get(sample.name) ?? []) {
      if (row.http !== undefined && row.http !== speaksHttp.has(keyOf(sample.labels))) continue;
      if (fits(row, sample.labels)) place(stats, row, sample, facts);
    }
  }
  for (const { name, members: { total, healthy } } of facts.clusters) {
    stats.cluster(name, "membership_total", { kind: "gauge", value: total });
    stats.cluster(name, "membership_healthy", { kind: "gauge", value: healthy });
  }
  contextUpdates(stats, samples, facts);
  expirations(stats, facts);
  return stats.all();
}

function keyOf({ direction, listener }: Labels): string {
  return `${direction} ${listener}`;
}

function fits({ labels = {}, notSds }: EnvoyName, given: Labels): boolean {
  if (notSds && given["source"]?.startsWith("sds ")) return false;
  return Object.entries(labels).every(([name, value]) => given[name] === value);
}

function place(stats: Collected, row: EnvoyName, sample: Sample, facts: EnvoyFacts): void {
  const { stat, scope } = row;
  const { labels } = sample;
  switch (scope) {
    case "secret": {
      const { secret } = labels;
      if (secret !== undefined) stats.secret(secret, stat, sample);
      return;
    }
    case "source":
      for (const { name, source } of facts.secrets) {
        if (source === labels["source"]) stats.secret(name, stat, sample);
      }
      return;
    case "listener":
      for (const { name, direction, address } of facts.listeners) {
        const isIt = name === labels["listener"] && direction === labels["direction"];
        if (isIt) stats.listener(address, stat, sample);
      }
      return;
    case "credentials":
      for (const { credentials, address } of facts.listeners) {
        const isIt = credentials !== undefined && credentials === labels["credentials"];
        if (isIt) stats.listener(address, stat, sample);
      }
      return;
    case "cluster":
      {
        const cluster = clusterBehind(labels, facts);
        if (cluster !== undefined) stats.cluster(cluster, stat, sample);
      }
      return;
    case "tcp":
      for (const { name, direction, httpPrefix } of facts.listeners) {
        const isIt = name === labels["listener"] && direction === labels["direction"];
        if (isIt) stats.tcp(httpPrefix, nameOf(stat), sample);
      }
      return;
    case "http":
      for (const { name, direction, httpPrefix, address } of facts.listeners) {
        if (name !== labels["listener"] || direction !== labels["direction"]) continue;
        for (const named of namesOf(row, labels)) {
          stats.http(httpPrefix, named, sample);
          // Of these Envoy has a copy for each address; dashboards of Consul use it.
          if (row.sample === "http_responses_total") {
            stats.listenerHttp([address, httpPrefix], named, sample);
          }
        }
      }
      return;
    case "behind": {
      const behind = clusterBehind(labels, facts);
      if (behind === undefined) return;
      const { aggregate } = facts.clusters.find(({ name }) => name === behind) ?? {};
      const cluster = row.ofRoute ? aggregate ?? behind : behind;
      for (const named of namesOf(row, labels)) stats.cluster(cluster, named, sample);
      return;
    }
    case "agent":
      return stats.cluster(AGENT, stat, sample);
    case "metrics":
      return stats.http(labels["server"] ?? "", nameOf(stat), sample);
    case "target":
      for (const { name, targets } of facts.clusters) {
        if (targets.includes(labels["target"] ?? "")) stats.cluster(name, stat, sample);
      }
      return;
  }
}

/** What a sample of a listener says about a cluster, where it does not name it, is about the first one. */
function clusterBehind(labels: Labels, { clusters }: EnvoyFacts): string | undefined {
  const { cluster, listener = "", direction } = labels;
  if (direction === "inbound") return LOCAL_APP;
  const known = clusters.find(({ name, upstreams }) =>
    cluster === undefined ? upstreams.includes(listener) : name === cluster
  );
  return known?.name;
}

/** A statistic whose name has in it what Prometheus has in labels. */
interface Named {
  readonly dotted: string;
  readonly prometheus: string;
  readonly labels: Labels;
}

function namesOf({ stat, by }: EnvoyName, labels: Labels): readonly Named[] {
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

function nameOf(stat: string): Named {
  return { dotted: stat, prometheus: stat.replaceAll(".", "_"), labels: {} };
}

/** How often the TLS settings of a listener or cluster were made anew because a secret came. */
function contextUpdates(stats: Collected, samples: readonly Sample[], facts: EnvoyFacts): void {
  const updates = new Map<string, number>();
  for (const { name, labels, value } of samples) {
    const { secret, source } = labels;
    if (name === "secret_updates_total") updates.set(`${source}\u0000${secret}`, value);
  }
  const countOf = (secrets: readonly UsedSecret[]): number =>
    secrets.reduce(
      (sum, { name, source }) => sum + (updates.get(`${source}\u0000${name}`) ?? 0),
      0,
    );
  for (const { address, secrets } of facts.listeners) {
    const stat = "server_ssl_socket_factory.ssl_context_update_by_sds";
    if (secrets.length === 0) continue;
    stats.listener(address, stat, { kind: "counter", value: countOf(secrets) });
  }
  for (const { name, secrets } of facts.clusters) {
    const stat = "client_ssl_socket_factory.ssl_context_update_by_sds";
    if (secrets.length === 0) continue;
    stats.cluster(name, stat, { kind: "counter", value: countOf(secrets) });
  }
}

function expirations(stats: Collected, { listeners, clusters, nowMs }: EnvoyFacts): void {
  let firstMs = Infinity;
  const each = (
    secrets: readonly UsedSecret[],
    add: (name: string, number: Measured) => void,
  ) => {
    for (const { name, notAfterMs } of secrets) {
      if (notAfterMs === undefined) continue;
      firstMs = Math.min(firstMs, notAfterMs);
      add(name, { kind: "gauge", value: Math.floor(notAfterMs / 1_000) });
    }
  };
  for (const { address, secrets } of listeners) {
    each(secrets, (name, number) => stats.expiration(["listener", address], name, number));
  }
  for (const { name: cluster, secrets } of clusters) {
    each(secrets, (name, number) => stats.expiration(["cluster", cluster], name, number));
  }
  if (firstMs === Infinity) return;
  const value = Math.max(Math.floor((firstMs - nowMs) / DAY_MS), 0);
  stats.add({
    name: "server.days_until_first_cert_expiring",
    kind: "gauge",
    value,
    prometheus: "server_days_until_first_cert_expiring",
    labels: {},
  });
}

type Measured = Pick<Sample, "kind" | "value" | "counts">;

/** Of one name, numbers add up; of what says how a secret is the worst counts. */
class Collected {
  readonly #stats = new Map<string, EnvoyStat>();

  add(stat: EnvoyStat): void {
    const seen = this.#stats.get(stat.name);
    if (!seen) return void this.#stats.set(stat.name, stat);
    const isState = stat.kind === "gauge" && /^sds\.|\.ssl\.certificate\./.test(stat.name);
    this.#stats.set(
      stat.name,
      isState ? { ...seen, value: Math.min(seen.value, stat.value) } : addSamples(seen, stat),
    );
  }

  secret(name: string, stat: string, number: Measured): void {
    const shown = segment(name);
    this.#scoped(`sds.${shown}`, { envoy_xds_resource_name: shown }, nameOf(stat), number);
  }

  listener(address: string, stat: string, number: Measured): void {
    const shown = segment(address);
    this.#scoped(`listener.${shown}`, { envoy_listener_address: shown }, nameOf(stat), number);
  }

  cluster(name: string, stat: string | Named, number: Measured): void {
    const named = typeof stat === "string" ? nameOf(stat) : stat;
    const shown = segment(name);
    this.#scoped(`cluster.${shown}`, clusterTags(shown), named, number);
  }

  http(prefix: string, named: Named, number: Measured): void {
    const shown = segment(prefix);
    const tags = prefixTags("envoy_http_conn_manager_prefix", shown);
    this.#scoped(`http.${shown}`, tags, named, number);
  }

  tcp(prefix: string, named: Named, number: Measured): void {
    const shown = segment(prefix);
    this.#scoped(`tcp.${shown}`, prefixTags("envoy_tcp_prefix", shown), named, number);
  }

  listenerHttp(
    [address, prefix]: readonly [string, string],
    { dotted, prometheus, labels }: Named,
    number: Measured,
  ): void {
    const shown = segment(address);
    this.#scoped(`listener.${shown}`, { envoy_listener_address: shown }, {
      dotted: `http.${prefix}.${dotted}`,
      prometheus: `http_${prometheus}`,
      labels: { ...prefixTags("envoy_http_conn_manager_prefix", prefix), ...labels },
    }, number);
  }

  expiration(
    [scope, of]: readonly ["listener" | "cluster", string],
    certificate: string,
    { kind, value }: Measured,
  ): void {
    const whose = segment(of);
    const shown = segment(certificate);
    const tags = scope === "listener" ? { envoy_listener_address: whose } : clusterTags(whose);
    this.add({
      name: `${scope}.${whose}.ssl.certificate.${shown}.expiration_unix_time_seconds`,
      kind,
      value,
      prometheus: `${scope}_ssl_certificate_expiration_unix_time_seconds`,
      labels: { ...tags, envoy_tls_certificate: shown },
    });
  }

  all(): readonly EnvoyStat[] {
    return [...this.#stats.values()];
  }

  /** `scope`: the name up to the statistic, `tags`: what it says. */
  #scoped(
    scope: string,
    tags: Labels,
    { dotted, prometheus, labels }: Named,
    { kind, value, counts }: Measured,
  ): void {
    const word = scope.slice(0, scope.indexOf("."));
    this.add({
      name: `${scope}.${dotted}`,
      kind,
      value,
      ...(counts && { counts }),
      prometheus: `${word}_${prometheus}`,
      ...(Object.keys(labels).length === 0 && { tagged: `${word}.${dotted}` }),
      labels: { ...tags, ...labels },
    });
  }
}

/** As Envoy writes names in statistics: `127.0.0.1:80` is `127.0.0.1_80`. */
export function segment(name: string): string {
  return name.replace(/:\/\/|:\/|:|\s/g, "_");
}
