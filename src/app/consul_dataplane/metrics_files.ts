/**
 * The files that metrics are served with over TLS.
 *
 * @module
 */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { SmallServerTls } from "../../admin/mod.ts";
import { messageOf, ProxyError } from "../../base/mod.ts";
import type { MetricsOptions } from "./metrics_options.ts";
import { readText } from "./read_text.ts";

const CA_FILES = 100;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Throws `config_invalid` where they cannot be used. */
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
    // Whoever reads it says why it cannot be read.
    return [path];
  }
}
