/**
 * `envoy_tracing_json` and `envoy_listener_tracing_json`: Envoy's configuration of Zipkin and OpenTelemetry,
 * with the cluster of the collector from `envoy_extra_static_clusters_json`. What is not followed is named.
 *
 * @module
 */

import { formatAddress } from "../../base/mod.ts";
import { TRACE_FORMS } from "../../http/mod.ts";
import type { TracingChoice } from "../../snapshot/mod.ts";
import { plain } from "./named_keys.ts";

export const TRACING_KEY = "envoy_tracing_json";
export const LISTENER_TRACING_KEY = "envoy_listener_tracing_json";
export const CLUSTERS_KEY = "envoy_extra_static_clusters_json";

export interface TracingTexts {
  /** `undefined`: the key is absent. */
  readonly tracing: unknown;
  readonly listener: unknown;
  readonly clusters: readonly unknown[];
}

export interface EnvoyTracing {
  /** Absent: no tracing is configured, or it cannot be used. */
  readonly choice?: TracingChoice;
  /** The collector's cluster; `""`: none. */
  readonly cluster: string;
}

/** `warnings` get a sentence for what is not followed. */
export function readEnvoyTracing(texts: TracingTexts, warnings: string[]): EnvoyTracing {
  const warn = (fact: string) => void warnings.push(`The proxy's config has ${fact}`);
  const bootstrap = messageOf(texts.tracing, TRACING_KEY, warn);
  const listener = messageOf(texts.listener, LISTENER_TRACING_KEY, warn);
  const provider = listener?.message("provider") ?? bootstrap?.message("http");
  if (!provider) {
    const key = bootstrap ? TRACING_KEY : LISTENER_TRACING_KEY;
    if (bootstrap ?? listener) warn(`${key}, which is ignored: it names no tracer`);
    return { cluster: "" };
  }
  const { choice, cluster, fault } = readProvider(provider, texts.clusters);
  const shares = listener ? readShares(listener) : CONSULS_SHARES;
  for (const message of [bootstrap, listener]) message?.nameRest(["provider", "http", "@type"]);
  if (fault === undefined) return { choice: { ...choice, ...shares }, cluster };
  warn(`${provider.path}, which is ignored: ${fault}`);
  return { cluster: "" };
}

/** Consul tells Envoy to sample no request whose caller does not ask for it. */
const CONSULS_SHARES = { ratio: 0 } as const;
const DRIVER_NAMES = { zipkin: "envoy.tracers.zipkin", otlp: "envoy.tracers.opentelemetry" };

type Warn = (fact: string) => void;

/** Envoy's configuration in JSON, read by names in either spelling. */
class Message {
  readonly path: string;
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #warn: Warn;
  readonly #read = new Set<string>();

  constructor(fields: Readonly<Record<string, unknown>>, path: string, warn: Warn) {
    this.#fields = fields;
    this.path = path;
    this.#warn = warn;
  }

  value(name: string): unknown {
    this.#read.add(plain(name));
    const key = Object.keys(this.#fields).find((key) => plain(key) === plain(name));
    return key === undefined ? undefined : this.#fields[key];
  }

  text(name: string): string {
    const value = this.value(name);
    return typeof value === "string" ? value : "";
  }

  message(name: string): Message | undefined {
    const value = this.value(name);
    return isFields(value) ? new Message(value, `${this.path}.${name}`, this.#warn) : undefined;
  }

  messages(name: string): readonly Message[] {
    const value = this.value(name);
    const list = Array.isArray(value) ? value.filter(isFields) : [];
    return list.map((each, at) => new Message(each, `${this.path}.${name}[${at}]`, this.#warn));
  }

  /** Counts the field as read where it has such a value. */
  accepts(name: string, values: readonly unknown[] | "any"): void {
    const key = Object.keys(this.#fields).find((key) => plain(key) === plain(name));
    const value = key === undefined ? undefined : this.#fields[key];
    if (values === "any" || values.includes(value)) this.#read.add(plain(name));
  }

  /** Names the fields that were not read; those of `moot` make no difference. */
  nameRest(moot: readonly string[] = []): void {
    const known = new Set([...this.#read, ...moot.map(plain)]);
    const rest = Object.keys(this.#fields).filter((key) => !known.has(plain(key)));
    for (const key of rest) {
      this.#warn(`${this.path}.${key.slice(0, 60)}, which is ignored: it is not followed`);
    }
  }
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function messageOf(written: unknown, key: string, warn: Warn): Message | undefined {
  if (written === undefined || written === "") return undefined;
  try {
    const value: unknown = typeof written === "string" ? JSON.parse(written) : written;
    if (isFields(value)) return new Message(value, key, warn);
  } catch {
    // Named below.
  }
  warn(`${key}, which is ignored: it is no object in JSON`);
  return undefined;
}

interface ReadTracer {
  readonly choice: TracingChoice;
  /** Cluster of the collector. */
  readonly cluster: string;
  readonly fault?: string;
}

function faulty(fault: string, cluster = ""): ReadTracer {
  return { choice: {}, cluster, fault };
}

function readProvider(provider: Message, clusters: readonly unknown[]): ReadTracer {
  const name = provider.text("name");
  const config = provider.message("typed_config") ?? provider.message("config");
  const type = config?.text("@type") ?? "";
  provider.nameRest();
  if (!config) return faulty("it has no typed_config");
  if (type.endsWith(".ZipkinConfig") || type === "" && name === DRIVER_NAMES.zipkin) {
    return readZipkin(config, clusters);
  }
  if (type.endsWith(".OpenTelemetryConfig") || type === "" && name === DRIVER_NAMES.otlp) {
    return readOpenTelemetry(config, clusters);
  }
  const shown = (name || type).slice(0, 80);
  return faulty(
    `the tracer ${shown} is not followed; ${DRIVER_NAMES.zipkin} and ${DRIVER_NAMES.otlp} are, ` +
      "and -trace-to sends OTLP to any collector",
  );
}

function readZipkin(config: Message, clusters: readonly unknown[]): ReadTracer {
  const cluster = config.text("collector_cluster");
  const path = config.text("collector_endpoint") || "/api/v2/spans";
  config.accepts("collector_endpoint_version", ["HTTP_JSON", 1]);
  config.accepts("shared_span_context", [false]);
  config.accepts("trace_id_128bit", [true]);
  config.nameRest();
  if (!path.startsWith("/")) return faulty("its collector_endpoint is no path", cluster);
  return collectorAt(cluster, clusters, (address) => ({
    collector: { format: "zipkin_json", url: `http://${address}${path}`, headers: {} },
    // Envoy's Zipkin tracer writes this form.
    propagation: { read: TRACE_FORMS, write: ["b3multi"], writesCarried: true },
  }));
}

function readOpenTelemetry(config: Message, clusters: readonly unknown[]): ReadTracer {
  const service = config.text("service_name");
  const named = service === "" ? {} : { service };
  const grpc = config.message("grpc_service");
  const http = config.message("http_service");
  config.nameRest();
  if (http) {
    const uri = http.message("http_uri");
    const headers = headersOf(http.messages("request_headers_to_add"));
    const cluster = uri?.text("cluster") ?? "";
    const path = pathOf(uri?.text("uri") ?? "");
    uri?.accepts("timeout", "any");
    for (const message of [uri, http]) message?.nameRest();
    return collectorAt(cluster, clusters, (address) => ({
      ...named,
      collector: { format: "otlp_protobuf", url: `http://${address}${path}`, headers },
    }));
  }
  const envoy = grpc?.message("envoy_grpc");
  if (!grpc || !envoy) return faulty("it has neither http_service nor grpc_service.envoy_grpc");
  const cluster = envoy.text("cluster_name");
  const headers = Object.fromEntries(
    grpc.messages("initial_metadata").map((pair) =>
      [pair.text("key").toLowerCase(), pair.text("value")] as const
    ),
  );
  grpc.accepts("timeout", "any");
  for (const message of [envoy, grpc]) message.nameRest();
  return collectorAt(cluster, clusters, (address) => ({
    ...named,
    collector: { format: "otlp_grpc", url: `http://${address}/`, headers },
  }));
}

function headersOf(added: readonly Message[]): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const each of added) {
    const header = each.message("header");
    if (header) headers[header.text("key").toLowerCase()] = header.text("value");
    header?.nameRest();
    each.nameRest(["append", "append_action"]);
  }
  return headers;
}

/** Envoy takes only the path of this address; the cluster has the rest. */
function pathOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).pathname : "/v1/traces";
}

function collectorAt(
  cluster: string,
  clusters: readonly unknown[],
  choose: (address: string) => TracingChoice,
): ReadTracer {
  if (cluster === "") return faulty("it names no cluster of a collector");
  const found = clusters.find((each) => isFields(each) && each["name"] === cluster);
  if (!isFields(found)) {
    return faulty(`its cluster ${shown(cluster)} is not in ${CLUSTERS_KEY}`, cluster);
  }
  const ignore = () => {};
  const message = new Message(found, cluster, ignore);
  if (message.value("transport_socket") !== undefined) {
    const fault = `the transport_socket of its cluster ${shown(cluster)} is not followed`;
    return faulty(`${fault}; -trace-to takes an https address`, cluster);
  }
  const [endpoint] = [
    ...message.message("load_assignment")?.messages("endpoints").flatMap((locality) =>
      locality.messages("lb_endpoints").flatMap((each) => each.message("endpoint") ?? [])
        .flatMap((each) => each.message("address") ?? [])
    ) ?? [],
    ...message.messages("hosts"),
  ];
  const socket = endpoint?.message("socket_address");
  const host = socket?.text("address") ?? "";
  const port = socket?.value("port_value");
  if (host === "" || typeof port !== "number") {
    return faulty(`its cluster ${shown(cluster)} has no socket_address with a port`, cluster);
  }
  return { cluster, choice: choose(formatAddress({ kind: "tcp", host, port })) };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}

function readShares(listener: Message): Pick<TracingChoice, "ratio" | "atMost"> {
  const share = (name: string): number => {
    const value = listener.message(name)?.value("value");
    // Envoy's default is all of them.
    return typeof value === "number" ? Math.min(Math.max(value, 0), 100) / 100 : 1;
  };
  return { ratio: share("random_sampling"), atMost: share("overall_sampling") };
}
