/**
 * The settings of `postern dataplane` about metrics, and the files that metrics are served with over TLS.
 *
 * @module
 */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { SmallServerTls } from "../../admin/mod.ts";
import { messageOf, ProxyError } from "../../base/mod.ts";
import { badValue, readInteger, textOrDefault } from "../flags/read_values.ts";
import { type DataplaneValues, readText } from "./values.ts";

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

export function readMetrics(values: DataplaneValues): MetricsOptions {
  const serviceUrl = readUrl(values, "telemetry-prom-service-metrics-url");
  const [cert, key] = ["cert-file", "key-file"].map((name) =>
    values.text(`telemetry-prom-${name}`)
  );
  const ca = values.text("telemetry-prom-ca-certs-path") ??
    values.text("telemetry-prom-ca-certs-file");
  const given = [ca, cert, key].filter((path) => path !== undefined);
  if (given.length > 0 && (ca === undefined || cert === undefined || key === undefined)) {
    throw new ProxyError(
      "usage",
      "Cannot serve metrics with TLS: give all of -telemetry-prom-ca-certs-path, " +
        "-telemetry-prom-cert-file and -telemetry-prom-key-file, or none",
    );
  }
  return {
    useCentralConfig: values.on("telemetry-use-central-config"),
    scrapePath: readPath(values, "telemetry-prom-scrape-path"),
    mergePort: readInteger(values, "telemetry-prom-merge-port", { atLeast: 1, atMost: 65_535 }),
    ...(serviceUrl && { serviceUrl }),
    ...(ca !== undefined && cert !== undefined && key !== undefined && { tls: { ca, cert, key } }),
  };
}

export function readPath(values: DataplaneValues, name: string): string {
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
