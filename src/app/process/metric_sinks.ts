/** The sinks of metrics that the proxy's registration configures, as for Envoy. @module */

import {
  type AdminView,
  answerStats,
  type Listening,
  metricsPage,
  type SmallPage,
  startSmallServer,
} from "../../admin/mod.ts";
import {
  formatAddress,
  hostFault,
  type Log,
  messageOf,
  ProxyError,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import type { InheritedSockets, ListeningSocket } from "../../net/mod.ts";
import { parsePort, splitHostPort } from "../flags/read_values.ts";
import { createStatsdSink, type StatsdSink } from "./statsd_sink.ts";

const LOOK_MS = 1_000;
/** Envoy's default. */
const FLUSH_MS = 5_000;
const FLUSH_LIMITS_MS = { least: 100, most: 300_000 } as const;

const PROMETHEUS_KEY = "envoy_prometheus_bind_addr";
const STATS_KEY = "envoy_stats_bind_addr";
const INTERVAL_KEY = "envoy_stats_flush_interval";

/** Names that Consul gives to Envoy. */
const SERVER_NAMES = {
  [PROMETHEUS_KEY]: "envoy_prometheus_metrics",
  [STATS_KEY]: "envoy_metrics",
} as const;

type Sink =
  & { close(): Promise<void> | void }
  & Partial<Pick<Listening, "address" | "copies" | "leave">>;
/** `inputs`: the configuration that the sink was made from. */
type Running = { readonly inputs: string; readonly sink: Sink };

interface MetricSinksOptions {
  readonly view: AdminView;
  readonly stats: Stats;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** False: the caller serves Prometheus itself. */
  readonly prometheus: boolean;
  /** Nothing is sent or served so far, because the process before does that; default: never. */
  readonly isHeld?: () => boolean;
  /** Sockets of the process before. */
  readonly inherited?: () => InheritedSockets | undefined;
}

export class MetricSinks {
  readonly #options: MetricSinksOptions;
  readonly #running = new Map<string, Running>();
  readonly #faults = new Map<string, string>();
  #looking: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #closed = false;
  #left = false;

  constructor(options: MetricSinksOptions) {
    this.#options = options;
    this.#watch();
  }

  /** Resolves once the sinks are as configured now. */
  look(): Promise<void> {
    return this.#looking = this.#looking.then(() => this.#look());
  }

  /** Copies of the sockets of servers, for another process. */
  sockets(): readonly ListeningSocket[] {
    return [...this.#running.values()].flatMap(({ sink }) =>
      sink.copies?.().map((fd) => ({
        address: sink.address ? formatAddress(sink.address) : "",
        fd,
      })) ?? []
    );
  }

  /** Another process serves metrics from now on; what is pushed goes on until `close`. */
  leave(): void {
    this.#left = true;
    for (const { sink } of this.#running.values()) sink.leave?.();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#looking;
    for (const key of [...this.#running.keys()]) await this.#stop(key);
  }

  #watch(): void {
    this.#timer = this.#options.view.clock.after(LOOK_MS, () => {
      void this.look().then(() => this.#closed || this.#watch());
    });
  }

  async #look(): Promise<void> {
    const { view, prometheus, isHeld } = this.#options;
    if (isHeld?.() || this.#left) return;
    const wanted = view.source()?.metrics;
    if (prometheus) {
      const answer: SmallPage = async (target, accept) => {
        if (target.replace(/\?.*/, "") !== "/metrics") return undefined;
        return { status: 200, ...await metricsPage(view, accept) };
      };
      const serve = (text: string) => this.#serve(PROMETHEUS_KEY, text, answer);
      await this.#keep(PROMETHEUS_KEY, wanted?.prometheusBindAddr ?? "", serve);
    }
    const serve = (text: string) => this.#serve(STATS_KEY, text, answerStats(view));
    await this.#keep(STATS_KEY, wanted?.statsBindAddr ?? "", serve);
    await this.#keepStatsd("envoy_statsd_url", wanted?.statsdUrl, wanted?.flushInterval);
    await this.#keepStatsd("envoy_dogstatsd_url", wanted?.dogstatsdUrl, wanted?.flushInterval);
  }

  #keepStatsd(key: StatsdSink["key"], url = "", flushInterval = ""): Promise<void> {
    return this.#keep(key, url, () => {
      const { view, log, env } = this.#options;
      const intervalMs = readInterval(flushInterval);
      return createStatsdSink({ key, url, intervalMs }, { view, log, env });
    }, flushInterval);
  }

  /** Runs the sink that `key` configures. A failure is logged once; the next look tries again. */
  async #keep(
    key: string,
    text: string,
    start: (text: string) => Promise<Sink> | Sink,
    rest = "",
  ): Promise<void> {
    const inputs = text === "" || this.#closed ? "" : `${text} ${rest}`;
    if (inputs === (this.#running.get(key)?.inputs ?? "")) return;
    await this.#stop(key);
    if (inputs === "") return void this.#faults.delete(key);
    try {
      this.#running.set(key, { inputs, sink: await start(text) });
      this.#faults.delete(key);
    } catch (error) {
      const fault = messageOf(error);
      if (this.#faults.get(key) !== fault) {
        this.#options.log.error("metrics are not where they are wanted", { key, error: fault });
      }
      this.#faults.set(key, fault);
    }
  }

  async #stop(key: string): Promise<void> {
    const running = this.#running.get(key);
    this.#running.delete(key);
    await running?.sink.close();
  }

  async #serve(
    key: keyof typeof SERVER_NAMES,
    text: string,
    answer: SmallPage,
  ): Promise<Listening> {
    const { view: { clock }, stats, log } = this.#options;
    const labels = { server: SERVER_NAMES[key] };
    const total = stats.counter("metrics_requests_total", "Requests for metrics alone", labels);
    const active = stats.gauge("metrics_requests_active", "The same, under way", labels);
    const bind = readBindAddress(key, text);
    return await startSmallServer({
      ...bind,
      descriptor: this.#options.inherited?.()?.take(formatAddress({ kind: "tcp", ...bind }))[0],
      name: `metrics server of ${key}`,
      flag: key,
      clock,
      isPublic: true,
      answer: async (method, target, { accept }) => {
        total.add(1);
        active.add(1);
        try {
          return method === "GET" || method === "HEAD" ? await answer(target, accept) : undefined;
        } finally {
          active.add(-1);
        }
      },
    }, log);
  }
}

/** Throws `config_invalid`, naming the key. */
export function readBindAddress(
  key: string,
  text: string,
): { readonly host: string; readonly port: number } {
  const [host = "", portText = ""] = splitHostPort(text) ?? [];
  const port = parsePort(portText, 1);
  if (port !== undefined && hostFault(host) === undefined) return { host: host || "0.0.0.0", port };
  throw new ProxyError(
    "config_invalid",
    `Cannot use ${key} ${JSON.stringify(text.slice(0, 80))}: want host:port`,
  );
}

/** A duration in the JSON form of protobuf: `5s`. */
function readInterval(text: string): number {
  if (text === "") return FLUSH_MS;
  const [, seconds] = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(text) ?? [];
  const ms = Number(seconds) * 1_000;
  if (ms >= FLUSH_LIMITS_MS.least && ms <= FLUSH_LIMITS_MS.most) return ms;
  throw new ProxyError(
    "config_invalid",
    `Cannot use ${INTERVAL_KEY} ${JSON.stringify(text.slice(0, 80))}: want 0.1s to 300s, as 5s`,
  );
}
