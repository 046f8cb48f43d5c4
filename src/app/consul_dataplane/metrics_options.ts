/**
 * The settings of `postern dataplane` about metrics.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { badValue, readInteger, textOrDefault } from "../flags/read_values.ts";
import type { DataplaneValues } from "./values.ts";

export interface TcpBind {
  readonly host: string;
  readonly port: number;
}

export interface MetricsOptions {
  /** False: nothing of the proxy's configuration counts, and nothing is served but by the admin server. */
  readonly useCentralConfig: boolean;
  readonly scrapePath: string;
  readonly mergePort: number;
  /** The application's own metrics, `http:`. */
  readonly serviceUrl?: URL;
  /** Paths of PEM files, of the CA a directory perhaps. */
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
