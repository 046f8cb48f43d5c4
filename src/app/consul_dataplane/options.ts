/** The settings of `postern dataplane`, checked, with a warning for each without effect. @module */

import { quote, usage } from "../flags/parse_flags.ts";
import { hostFault, messageOf, ProxyError } from "../../base/mod.ts";
import { badValue, readInteger, readLogLevel, textOrDefault } from "../flags/read_values.ts";
import { type ProxyOptions, SETTLE_MS } from "../flags/proxy_options.ts";
import { DEFAULT_CONNECTIONS } from "../flags/proxy_flags.ts";
import { UNUSED } from "./flags.ts";
import { readServers } from "./servers_options.ts";
import { type DataplaneValues, readText } from "./values.ts";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { SmallServerTls } from "../../admin/mod.ts";

export interface LifecycleOptions extends TcpBind {
  readonly startupPath: string;
  readonly startupGraceMs: number;
  readonly shutdownPath: string;
  readonly shutdownGraceMs: number;
  readonly drainListeners: boolean;
}

export interface DataplaneOptions {
  readonly proxy: ProxyOptions;
  /** A further address for `/ready`, besides the admin server. */
  readonly ready?: TcpBind;
  readonly lifecycle: LifecycleOptions;
  readonly metrics: MetricsOptions;
}

const DAY_S = 86_400;
/** The default of `postern proxy -drain-timeout`. */
const STOP_MS = 8_000;
const PORT = { atLeast: 1, atMost: 65_535 };

/** `readText` reads a whole file, within its bounds. Throws `usage` and `config_invalid`. */
export function dataplaneOptions(
  values: DataplaneValues,
  { forEnvoy, readText }: {
    readonly forEnvoy: readonly string[];
    readonly readText: (path: string, flag: string) => string;
  },
): DataplaneOptions {
  if (textOrDefault(values, "mode") !== "sidecar") {
    throw badValue(values, "mode", "there is no DNS proxy; want sidecar");
  }
  const { serversFlags, proxyId, warnings } = readServers(values, readText);
  const ready = {
    host: readHost(values, "envoy-ready-bind-address"),
    port: readInteger(values, "envoy-ready-bind-port", { ...PORT, atLeast: 0 }),
  };
  return {
    proxy: {
      mode: { kind: "agent", by: "proxy_id", id: proxyId },
      agentFlags: {},
      serversFlags,
      agentConnections: 12,
      preparedQueryIntervalMs: 10_000,
      authorize: "match",
      strictSpiffeChain: false,
      adminBind: {
        kind: "address",
        host: readHost(values, "envoy-admin-bind-address"),
        port: adminPort(values),
      },
      ready: "all",
      drainTimeoutMs: readSeconds(values, "envoy-drain-time-seconds"),
      // A grace period takes the place of this drain.
      stopTimeoutMs: STOP_MS,
      settleMs: SETTLE_MS,
      idleTimeoutMs: 3_600_000,
      lifetimeMs: 0,
      maxConnections: DEFAULT_CONNECTIONS,
      // Envoy takes 0 for one thread.
      workers: Math.max(readInteger(values, "envoy-concurrency", { atLeast: 0, atMost: 256 }), 1),
      logLevel: readLogLevel(values),
      logJson: values.on("log-json"),
      watchPlugins: false,
      warnings: [...warnings, ...unusedOf(values, forEnvoy)],
    },
    ...(ready.host !== "" && ready.port > 0 && { ready }),
    lifecycle: readLifecycle(values),
    metrics: readMetrics(values),
  };
}

/** The only setting that `-check-proxy-health` needs. */
export function adminPort(values: DataplaneValues): number {
  return readInteger(values, "envoy-admin-bind-port", PORT);
}

function readLifecycle(values: DataplaneValues): LifecycleOptions {
  const options = {
    host: readHost(values, "graceful-addr"),
    port: readInteger(values, "graceful-port", PORT),
    startupPath: readPath(values, "graceful-startup-path"),
    startupGraceMs: readSeconds(values, "startup-grace-period-seconds"),
    shutdownPath: readPath(values, "graceful-shutdown-path"),
    shutdownGraceMs: readSeconds(values, "shutdown-grace-period-seconds"),
    drainListeners: values.on("shutdown-drain-listeners"),
  };
  if (options.startupPath === options.shutdownPath) {
    throw badValue(values, "graceful-shutdown-path", "it is -graceful-startup-path already");
  }
  return options;
}

function readSeconds(values: DataplaneValues, name: string): number {
  return readInteger(values, name, { atLeast: 0, atMost: DAY_S }) * 1_000;
}

function readHost(values: DataplaneValues, name: string): string {
  const host = textOrDefault(values, name).replace(/^\[(.*)\]$/, "$1");
  const fault = hostFault(host);
  if (fault !== undefined) throw badValue(values, name, `it names ${fault}`);
  return host;
}

function unusedOf(values: DataplaneValues, forEnvoy: readonly string[]): readonly string[] {
  const given = UNUSED.flatMap(({ flags }) => flags).filter(({ name, kind, byDefault }) =>
    kind === "switch" ? values.on(name) : textOrDefault(values, name) !== (byDefault ?? "")
  );
  const notes = given.map(({ name, help }) => `${values.origin(name)} does nothing: ${help}`);
  if (forEnvoy.length === 0) return notes;
  return [
    ...notes,
    `${quote(forEnvoy.join(" "))} after -- does nothing: there is no Envoy that it would be for`,
  ];
}

const CA_FILES = 100;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

export interface TcpBind {
  readonly host: string;
  readonly port: number;
}

export interface MetricsOptions {
  /** False: the proxy's configuration is ignored, and only the admin server serves metrics. */
  readonly useCentralConfig: boolean;
  readonly scrapePath: string;
  readonly mergePort: number;
  /** The application's own metrics, `http:`. */
  readonly serviceUrl?: URL;
  /** Paths of PEM files; `ca` may be a directory. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

function readMetrics(values: DataplaneValues): MetricsOptions {
  const serviceUrl = readUrl(values, "telemetry-prom-service-metrics-url");
  const [cert, key] = ["cert-file", "key-file"].map((name) =>
    values.text(`telemetry-prom-${name}`)
  );
  const ca = values.text("telemetry-prom-ca-certs-path") ??
    values.text("telemetry-prom-ca-certs-file");
  const given = [ca, cert, key].filter((path) => path !== undefined);
  if (given.length > 0 && (ca === undefined || cert === undefined || key === undefined)) {
    throw usage(
      "Cannot serve metrics with TLS: give all of -telemetry-prom-ca-certs-path, " +
        "-telemetry-prom-cert-file and -telemetry-prom-key-file, or none",
    );
  }
  return {
    useCentralConfig: values.on("telemetry-use-central-config"),
    scrapePath: readPath(values, "telemetry-prom-scrape-path"),
    mergePort: readInteger(values, "telemetry-prom-merge-port", PORT),
    ...(serviceUrl && { serviceUrl }),
    ...(ca !== undefined && cert !== undefined && key !== undefined && { tls: { ca, cert, key } }),
  };
}

function readPath(values: DataplaneValues, name: string): string {
  const path = textOrDefault(values, name);
  if (/^\/[^\s?#]*$/.test(path) && path.length <= 1_024) return path;
  throw badValue(values, name, "want a path, such as /metrics");
}

function readUrl(values: DataplaneValues, name: string): URL | undefined {
  const text = values.text(name);
  if (text === undefined) return undefined;
  const url = URL.parse(text);
  if (url?.protocol === "http:" && url.username === "" && url.password === "") return url;
  throw badValue(values, name, "want an http:// URL, such as http://127.0.0.1:9102/metrics");
}

/** Reads the files for TLS. Throws `config_invalid` where they cannot be used. */
export function readMetricsTls(files: MetricsOptions["tls"]): SmallServerTls | undefined {
  if (!files) return undefined;
  const certPem = readText(files.cert, "-telemetry-prom-cert-file");
  const keyPem = readText(files.key, "-telemetry-prom-key-file");
  const cas = pathsOf(files.ca).flatMap((path) =>
    readText(path, "-telemetry-prom-ca-certs-path").match(CERTIFICATE) ?? []
  );
  try {
    const fits = new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem));
    if (!fits) throw new Error("the key is that of another certificate");
    for (const pem of cas) new X509Certificate(pem);
    if (cas.length === 0) throw new Error("there is no CA certificate");
  } catch (error) {
    throw new ProxyError(
      "config_invalid",
      `Cannot serve metrics with the certificates of -telemetry-prom-...: ${messageOf(error)}`,
      { cause: error },
    );
  }
  return { caPem: cas.join("\n"), certPem, keyPem };
}

function pathsOf(path: string): readonly string[] {
  try {
    if (!statSync(path).isDirectory()) return [path];
    const files = readdirSync(path).sort().slice(0, CA_FILES).map((name) => join(path, name));
    return files.filter((file) => statSync(file).isFile());
  } catch {
    // Reading the path fails with the reason.
    return [path];
  }
}
