/** The provider of metrics in Consul's UI: the script that its agent serves, run on a Prometheus. @module */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { runInNewContext } from "node:vm";

export interface UiStat {
  /** `RPS`, `P99`, `RX` */
  readonly label: string;
  readonly value: string;
}

interface Subject {
  readonly service: string;
  readonly dc: string;
  readonly namespace: string;
}

type SubjectWithProtocol = Subject & { readonly protocol: "http" | "tcp" };
type Stats = readonly UiStat[];
type GroupedStats = Readonly<Record<string, Stats>>;

interface UiProvider {
  /** Names of the lines in the graph of a service. */
  series(subject: SubjectWithProtocol): Promise<readonly string[]>;
  service(subject: SubjectWithProtocol): Promise<Stats>;
  /** By `service.namespace.datacenter`. */
  upstreams(subject: Subject): Promise<GroupedStats>;
  downstreams(subject: Subject): Promise<GroupedStats>;
}

/** The contract between the UI and its providers, as Consul documents it for other providers. */
interface Registered {
  init(options: object): void;
  serviceRecentSummarySeries(
    ...given: readonly unknown[]
  ): Promise<{ readonly data: readonly Readonly<Record<string, number>>[] }>;
  serviceRecentSummaryStats(...given: readonly unknown[]): Promise<{ readonly stats: Stats }>;
  upstreamRecentSummaryStats(
    ...given: readonly unknown[]
  ): Promise<{ readonly stats: GroupedStats }>;
  downstreamRecentSummaryStats(
    ...given: readonly unknown[]
  ): Promise<{ readonly stats: GroupedStats }>;
}

/** `source`: Consul's source, which has the script as its agent serves it. */
export async function loadUiProvider(source: string, prometheusUrl: string): Promise<UiProvider> {
  const directory = join(source, "agent/uiserver/dist/assets/metrics-providers");
  const name = (await readdir(directory)).find((name) => name.startsWith("prometheus-"));
  if (name === undefined) throw new Error(`Cannot find Consul's provider in ${directory}`);
  const found: Registered[] = [];
  const registerMetricsProvider = (_name: string, provider: Registered) => found.push(provider);
  runInNewContext(await readFile(join(directory, name), "utf8"), {
    window: { consul: { registerMetricsProvider } },
  });
  const [provider] = found;
  if (!provider) throw new Error(`Cannot use ${name}: it registers no provider`);
  provider.init({
    metrics_proxy_enabled: true,
    // The agent's proxy for metrics passes paths on to Prometheus.
    fetch: (path: string, options: RequestInit) => fetch(`${prometheusUrl}${path}`, options),
  });
  const given = ({ service, dc, namespace }: Subject) => [service, dc, namespace];
  return {
    async series(subject) {
      const { data } = await provider.serviceRecentSummarySeries(
        ...given(subject),
        subject.protocol,
        {},
      );
      const names = new Set(data.flatMap((point) => Object.keys(point)));
      return [...names].filter((name) => name !== "time").sort();
    },
    service: async (subject) =>
      (await provider.serviceRecentSummaryStats(...given(subject), subject.protocol, {})).stats,
    upstreams: async (subject) =>
      (await provider.upstreamRecentSummaryStats(...given(subject), {})).stats,
    downstreams: async (subject) =>
      (await provider.downstreamRecentSummaryStats(...given(subject), {})).stats,
  };
}
