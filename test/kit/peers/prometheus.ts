/** A real Prometheus that scrapes the proxies of a test, and promtool's check of what they serve. @module */

import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import { freePort } from "../process/ports.ts";
import { eventually, Process } from "../process/process.ts";

export interface ScrapedTarget {
  /** `host:port`; metrics are at `/stats/prometheus`. */
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** One element of a vector, or a series of a matrix. */
export interface QueryResult {
  readonly metric: Readonly<Record<string, string>>;
  readonly value?: readonly [seconds: number, value: string];
}

/** Short, since `rate()` needs two samples; also the time limit of a scrape, on a busy machine, too. */
const SCRAPE_INTERVAL = "1s";

export class Prometheus implements AsyncDisposable {
  /** `http://host:port` */
  readonly url: string;
  readonly #own: AsyncDisposableStack;

  private constructor(url: string, own: AsyncDisposableStack) {
    this.url = url;
    this.#own = own;
  }

  /** `rules`: paths of files with recording and alerting rules; `features`: of `--enable-feature`. */
  static async start(
    host: string,
    targets: readonly ScrapedTarget[],
    { rules = [], features = [] }: {
      readonly rules?: readonly string[];
      readonly features?: readonly string[];
    } = {},
  ): Promise<Prometheus> {
    await using own = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "postern-prometheus-"));
    own.defer(() => rm(directory, { recursive: true, force: true }));
    const file = join(directory, "prometheus.yml");
    // JSON is YAML.
    await writeFile(
      file,
      JSON.stringify({
        global: { scrape_interval: SCRAPE_INTERVAL, evaluation_interval: SCRAPE_INTERVAL },
        rule_files: rules,
        scrape_configs: [{
          job_name: "mesh",
          metrics_path: "/stats/prometheus",
          static_configs: targets.map(({ address, labels }) => ({ targets: [address], labels })),
        }],
      }),
    );
    const address = `${host}:${await freePort(host)}`;
    own.use(
      new Process(peer("prometheus"), [
        `--config.file=${file}`,
        `--storage.tsdb.path=${join(directory, "data")}`,
        `--web.listen-address=${address}`,
        ...features.map((feature) => `--enable-feature=${feature}`),
      ]),
    );
    const url = `http://${address}`;
    await eventually("Prometheus is ready", async () => {
      const reply = await fetch(`${url}/-/ready`);
      await reply.body?.cancel();
      return reply.ok;
    });
    return new Prometheus(url, own.move());
  }

  /** The result of a query now, or the error that Prometheus answers. */
  async query(query: string): Promise<readonly QueryResult[]> {
    const reply = await fetch(`${this.url}/api/v1/query?query=${encodeURIComponent(query)}`);
    const answer = await reply.json() as {
      readonly error?: string;
      readonly data?: { readonly result: readonly QueryResult[] };
    };
    if (!answer.data) throw new Error(`Cannot query ${query}: ${answer.error}`);
    return answer.data.result;
  }

  async rules(): Promise<readonly { readonly name: string; readonly health: string }[]> {
    const reply = await fetch(`${this.url}/api/v1/rules`);
    const { data } = await reply.json() as {
      readonly data: {
        readonly groups: readonly { readonly rules: Awaited<ReturnType<Prometheus["rules"]>> }[];
      };
    };
    return data.groups.flatMap(({ rules }) => rules);
  }

  /** Trace ids of the exemplars that a query's series have. */
  async tracesOf(query: string): Promise<readonly string[]> {
    const spanMs = 600_000;
    const [start, end] = [Date.now() - spanMs, Date.now() + spanMs].map((ms) => ms / 1_000);
    const range = `start=${start}&end=${end}&query=${encodeURIComponent(query)}`;
    const reply = await fetch(`${this.url}/api/v1/query_exemplars?${range}`);
    const answer = await reply.json() as {
      readonly data?: readonly {
        readonly exemplars: readonly { readonly labels: { readonly trace_id?: string } }[];
      }[];
    };
    return (answer.data ?? []).flatMap(({ exemplars }) =>
      exemplars.map(({ labels }) => labels.trace_id ?? "")
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#own.disposeAsync();
  }
}

interface GrafanaPanel {
  readonly title?: string;
  readonly targets?: readonly { readonly expr?: string }[];
  /** A closed row has its panels here. */
  readonly panels?: readonly GrafanaPanel[];
}

/** The queries of a Grafana dashboard, with their variables, and the titles of their panels. */
export function panelsOf(
  dashboard: string,
): readonly { readonly title: string; readonly query: string }[] {
  const walk = ({ title = "", targets = [], panels = [] }: GrafanaPanel): ReturnType<
    typeof panelsOf
  > => [
    ...targets.flatMap(({ expr }) => expr ? [{ title, query: expr }] : []),
    ...panels.flatMap(walk),
  ];
  return walk(JSON.parse(dashboard));
}

/** Envoy's names are Envoy's: some of its counters have no `_total`. */
const ENVOYS_OWN = /^envoy_/;

/** Findings of `promtool check metrics` about a page. */
export function lintMetrics(page: string): readonly string[] {
  const { stdout, stderr, status } = spawnSync(peer("promtool"), ["check", "metrics"], {
    input: page,
    encoding: "utf8",
  });
  if (status === null) throw new Error("Cannot run promtool: it was killed");
  return `${stdout}\n${stderr}`.split("\n").filter((line) => line !== "" && !ENVOYS_OWN.test(line));
}
