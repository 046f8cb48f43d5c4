/** Serves the metrics of proxy and application as one page, where Envoy would. @module */

import {
  type AdminView,
  type AskAdmin,
  type Listening,
  METRICS_TYPE,
  metricsText,
  type SmallAnswer,
  type SmallServerTls,
  startSmallServer,
} from "../../admin/mod.ts";
import {
  formatPrometheus,
  type Log,
  messageOf,
  type Sample,
  sleep,
  type Timer,
} from "../../base/mod.ts";
import { readBindAddress } from "../process/metric_sinks.ts";
import { type MetricsOptions, readMetricsTls, type TcpBind } from "./options.ts";

interface MetricsDeps {
  readonly view: AdminView;
  readonly log: Log;
  readonly ask: AskAdmin;
}

/** Interval of reading central configuration and the files of certificates. */
const LOOK_MS = 1_000;
/** Collectors wait for 10 s, unless configured otherwise. */
const APPLICATION_TIMEOUT_MS = 4_000;
const APPLICATION_LIMIT_CHARS = 8 << 20;
const BIND_KEY = "envoy_prometheus_bind_addr";

export class DataplaneMetrics {
  readonly #options: MetricsOptions;
  readonly #deps: MetricsDeps;
  #servers: readonly Listening[] = [];
  /** The address and files that the servers were made from; `""`: there are none. */
  #inputs = "";
  #looking = Promise.resolve();
  #timer: Timer | undefined;
  #closed = false;
  /** Logged last: why nothing is served, and why the application's metrics are missing. */
  #fault = "";
  #lack = "";
  /** One request to the application at a time, for all requests of collectors. */
  #application: Promise<string> | undefined;

  constructor(options: MetricsOptions, deps: MetricsDeps) {
    this.#options = options;
    this.#deps = deps;
    if (options.useCentralConfig) this.#watch();
  }

  /** For tests: addresses of the servers. */
  get addresses(): readonly TcpBind[] {
    return this.#servers.map(({ address }) => address);
  }

  /** Resolves once the metrics are served as configured now. */
  look(): Promise<void> {
    return this.#looking = this.#looking.then(() => this.#look());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#looking;
    await this.#stop();
  }

  #watch(): void {
    this.#timer = this.#deps.view.clock.after(LOOK_MS, () => {
      void this.look().then(() => this.#closed || this.#watch());
    });
  }

  async #look(): Promise<void> {
    const { view } = this.#deps;
    const wanted = view.source()?.metrics;
    try {
      const text = wanted?.prometheusBindAddr ?? "";
      const bind = text === "" ? undefined : readBindAddress(BIND_KEY, text);
      const tls = bind && readMetricsTls(this.#options.tls);
      const inputs = bind ? JSON.stringify([bind, tls]) : "";
      if (this.#closed || inputs === this.#inputs) return this.#logFault("");
      await this.#stop();
      if (bind) await this.#start(bind, tls);
      this.#inputs = inputs;
      this.#logFault("");
    } catch (error) {
      // Running servers stay; the next look tries again.
      this.#logFault(messageOf(error));
    }
  }

  async #start(bind: TcpBind, tls: SmallServerTls | undefined): Promise<void> {
    const { scrapePath, mergePort } = this.#options;
    const { view: { clock }, log } = this.#deps;
    const page = (path: string) => async (method: string, target: string) => {
      const isMeant = target.replace(/\?.*/, "") === path;
      return isMeant && (method === "GET" || method === "HEAD") ? await this.page() : undefined;
    };
    const scraped = await startSmallServer({
      ...bind,
      name: "metrics server",
      clock,
      flag: BIND_KEY,
      ...(tls && { tls }),
      isPublic: true,
      answer: page(scrapePath),
    }, log);
    this.#servers = [scraped];
    // For this machine only; remote collectors use the other server.
    const merged = await startSmallServer({
      host: "127.0.0.1",
      port: mergePort,
      name: "merged metrics server",
      clock,
      flag: "-telemetry-prom-merge-port",
      answer: page("/stats/prometheus"),
    }, log);
    this.#servers = [scraped, merged];
  }

  async #stop(): Promise<void> {
    const servers = this.#servers;
    this.#servers = [];
    this.#inputs = "";
    await Promise.all(servers.map((server) => server.close()));
  }

  #logFault(fault: string): void {
    if (fault !== "" && fault !== this.#fault) {
      this.#deps.log.error("metrics are not served as configured", { error: fault });
    }
    this.#fault = fault;
  }

  /** Metrics of the proxy and the application; of the proxy alone where the application does not answer. */
  async page(): Promise<SmallAnswer & { readonly body: string }> {
    const { view, log } = this.#deps;
    const { serviceUrl } = this.#options;
    const own = await metricsText(view) + formatPrometheus(this.#samples(), "consul_dataplane_");
    if (!serviceUrl) return { status: 200, body: own, type: METRICS_TYPE };
    let lack = "";
    const application = await this.#applications(serviceUrl).catch((error) => {
      lack = messageOf(error);
      return "";
    });
    if (lack !== this.#lack && lack !== "") {
      log.warn("metrics of the application are lacking", {
        // The query may hold a token.
        url: `${serviceUrl.origin}${serviceUrl.pathname}`,
        error: lack,
      });
    }
    this.#lack = lack;
    const up = formatPrometheus([
      gauge("application_metrics_up", "1: the application's metrics are in here", lack === ""),
    ]);
    return { status: 200, body: own + up + application, type: METRICS_TYPE };
  }

  /** Metrics under the names that dashboards for consul-dataplane use. */
  #samples(): readonly Sample[] {
    const { view } = this.#deps;
    const connected = view.samples().find(({ name }) => name === "server_connected");
    return [
      gauge("consul_connected", "1: a server of Consul's is in use", connected?.value === 1),
      gauge("envoy_connected", "1: there is a configuration in force", Boolean(view.snapshot())),
    ];
  }

  async #applications(url: URL): Promise<string> {
    const { clock } = this.#deps.view;
    const over = new AbortController();
    const late = sleep(clock, APPLICATION_TIMEOUT_MS, { signal: over.signal }).then(() => {
      throw new Error("no answer in time");
    });
    late.catch(() => {});
    try {
      this.#application ??= this.#askApplication(url).finally(() => this.#application = undefined);
      return await Promise.race([this.#application, late]);
    } finally {
      over.abort();
    }
  }

  async #askApplication(url: URL): Promise<string> {
    const { status, body } = await this.#deps.ask({
      host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: Number(url.port || 80),
    }, {
      path: `${url.pathname}${url.search}`,
      timeoutMs: APPLICATION_TIMEOUT_MS,
      limitBytes: APPLICATION_LIMIT_CHARS + 1,
    });
    if (status !== 200) throw new Error(`status ${status}`);
    if (body.length > APPLICATION_LIMIT_CHARS) throw new Error("more than 8 MiB");
    // One malformed line would spoil the whole page.
    if (/^[^\s#a-zA-Z_:]/m.test(body)) throw new Error("not in the form that Prometheus reads");
    return body.endsWith("\n") || body === "" ? body : `${body}\n`;
  }
}

function gauge(name: string, help: string, value: boolean): Sample {
  return { name, kind: "gauge", help, labels: {}, value: value ? 1 : 0 };
}
