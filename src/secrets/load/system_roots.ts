/**
 * Where a system keeps the certificates that everybody trusts. Ways differ by distribution; the first
 * that exists counts.
 *
 * @module
 */

import { existsSync } from "node:fs";
import type { Environment } from "./source_bytes.ts";

const USUAL_PATHS = [
  // Debian, Ubuntu, Alpine, Arch, Gentoo
  "/etc/ssl/certs/ca-certificates.crt",
  // Fedora, RHEL, Amazon Linux
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  // SUSE
  "/etc/ssl/ca-bundle.pem",
  "/var/lib/ca-certificates/ca-bundle.pem",
  // Alpine without the package, BSD, macOS
  "/etc/ssl/cert.pem",
] as const;

/** `SSL_CERT_FILE`, as OpenSSL reads it, or the usual place; `undefined` where there is neither. */
export function systemRootsPath(
  env: Environment,
  exists: (path: string) => boolean = existsSync,
): string | undefined {
  const named = env["SSL_CERT_FILE"];
  // Named and absent is a mistake to be told, not a reason to trust something else.
  if (named !== undefined && named !== "") return named;
  return USUAL_PATHS.find((path) => exists(path));
}
