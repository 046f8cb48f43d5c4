/**
 * Everything that this process sends to collectors. The code of exporters is loaded once a collector is
 * configured.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { hostname } from "node:os";
import process from "node:process";
import { type AdminView, shownFamilies } from "../../admin/mod.ts";
import { type LogRecord, messageOf, type Timer } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { Exporter, ExporterOptions } from "./exporter.ts";
import { LogOutbox } from "./log_outbox.ts";
import { type Signal, SIGNALS, type TelemetryOrigin } from "./otlp.ts";
import type { EncodedMetric, OtlpMetrics } from "./otlp_metrics.ts";
import type { SendTelemetry, TelemetryBatch } from "./outbox.ts";

type TelemetryOptions = ExporterOptions & {
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly view: () => AdminView;
};

/** Points of one request: a collector takes 4 MiB by gRPC, unless it is told otherwise. */
const POINTS_LIMIT = 4_000;
type Facts = Pick<
  Snapshot,
  "tracing" | "telemetry" | "proxyId" | "datacenter" | "credentials"
>;

export class Telemetry {
  readonly #options: TelemetryOptions;
  readonly #exporters = new Map<Signal, Exporter>();
  readonly #logs: LogOutbox;
  #facts: Facts | undefined;
  #setting: Promise<void> = Promise.resolve();
  #metrics: OtlpMetrics | undefined;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: TelemetryOptions) {
    this.#options = options;
    this.#logs = new LogOutbox(options.clock, this.take);
  }

  /** Sends as this snapshot says from now on. */
  set(snapshot: Facts): void {
    const before = this.#facts;
    const isSame = before?.tracing?.version === snapshot.tracing?.version &&
      before?.telemetry?.version === snapshot.telemetry?.version;
    this.#facts = snapshot;
    if (isSame) return;
    this.#logs.set(snapshot.telemetry);
    this.#setting = this.#setting.then(() => this.#set(snapshot)).catch((error) => {
      this.#options.log.error("telemetry is not sent", { error: messageOf(error) });
    });
  }

  readonly take: SendTelemetry = async (batch, lost) => {
    await this.#setting;
    this.#exporters.get(batch.signal)?.take(batch, lost);
  };

  readonly takeLine = (record: LogRecord): void => this.#logs.takeLine(record);

  /** Sends what is left, within a time limit. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#logs.flush();
    await this.#setting;
    await this.#sendMetrics();
    await Promise.all([...this.#exporters.values()].map((exporter) => exporter.close()));
  }

  async #set(facts: Facts): Promise<void> {
    const { tracing, telemetry } = facts;
    const wanted = { spans: tracing, metrics: telemetry?.metrics, logs: telemetry?.logs };
    const isUsed = Object.values(wanted).some((part) => part);
    if (!isUsed && this.#exporters.size === 0) return;
    const { Exporter } = await import("./exporter.ts");
    for (const signal of SIGNALS) {
      const part = wanted[signal];
      let exporter = this.#exporters.get(signal);
      if (!part && !exporter) continue;
      this.#exporters.set(signal, exporter ??= new Exporter(signal, this.#options));
      exporter.set(
        part ? { collector: part.collector, origin: this.#originOf(facts, part) } : undefined,
      );
    }
    await this.#readMetrics(wanted.metrics?.intervalMs);
  }

  async #readMetrics(intervalMs: number | undefined): Promise<void> {
    this.#timer?.cancel();
    if (intervalMs === undefined) return;
    const { clock } = this.#options;
    if (!this.#metrics) {
      const { OtlpMetrics } = await import("./otlp_metrics.ts");
      this.#metrics = new OtlpMetrics(clock.now() - process.uptime() * 1_000);
    }
    const wait = () => {
      this.#timer = clock.after(intervalMs, () => {
        void this.#sendMetrics().then(() => this.#isClosed || wait());
      });
    };
    if (!this.#isClosed) wait();
  }

  /** Never rejects. */
  async #sendMetrics(): Promise<void> {
    const { log, view, clock } = this.#options;
    const format = this.#facts?.telemetry?.metrics?.collector.format;
    const exporter = this.#exporters.get("metrics");
    if (!format || !exporter || !this.#metrics) return;
    try {
      const families = await shownFamilies(view());
      const json = format === "otlp_json";
      const encoded = this.#metrics.encode(families, { nowMs: clock.now(), json });
      exporter.replace(batchesOf(encoded, POINTS_LIMIT).map((batch) => ({ ...batch, format })));
    } catch (error) {
      log.warn("metrics could not be read", { error: messageOf(error) });
    }
  }

  #originOf(
    { proxyId, datacenter, credentials }: Facts,
    { service, resource }: {
      readonly service: string;
      readonly resource: TelemetryOrigin["attributes"];
    },
  ): TelemetryOrigin {
    const { version, env } = this.#options;
    return {
      version,
      attributes: {
        "service.name": service,
        ...namespaceOf(credentials?.uri ?? ""),
        "service.instance.id": proxyId,
        "host.name": hostname(),
        "process.pid": process.pid,
        "consul.datacenter": datacenter,
        ...podOf(env),
        ...resource,
      },
    };
  }
}

/** Consul Enterprise has namespaces and partitions; elsewhere every service is in the default ones. */
function namespaceOf(uri: string): Readonly<Record<string, string>> {
  const parsed = parseServiceId(uri);
  if (parsed.kind !== "service") return {};
  const { namespace, partition } = parsed.id;
  return {
    ...(namespace !== "default" && { "service.namespace": namespace }),
    ...(partition !== "default" && { "consul.partition": partition }),
  };
}

/** As Consul's own Kubernetes integration names them. */
function podOf(env: TelemetryOptions["env"]): Readonly<Record<string, string>> {
  const isPod = env["KUBERNETES_SERVICE_HOST"] !== undefined;
  const { POD_NAME: pod = "", POD_NAMESPACE: namespace = "", NODE_NAME: node = "" } = env;
  return {
    ...(isPod && pod !== "" && { "k8s.pod.name": pod }),
    ...(isPod && namespace !== "" && { "k8s.namespace.name": namespace }),
    ...(isPod && node !== "" && { "k8s.node.name": node }),
  };
}

function batchesOf(
  metrics: readonly EncodedMetric[],
  limit: number,
): readonly Pick<TelemetryBatch, "signal" | "count" | "body">[] {
  const groups: EncodedMetric[][] = [];
  let points = limit;
  for (const metric of metrics) {
    if (points + metric.points > limit) {
      groups.push([]);
      points = 0;
    }
    groups.at(-1)?.push(metric);
    points += metric.points;
  }
  return groups.map((group) => {
    const bodies = group.map(({ body }) => body);
    const count = group.reduce((sum, one) => sum + one.points, 0);
    const bytes = bodies.filter((body) => typeof body !== "string");
    const body = bytes.length > 0 ? Buffer.concat(bytes) : bodies.join();
    return { signal: "metrics", count, body };
  });
}
