/** Keys of secrets and providers, equal for the same secret; and the names of sources for people. @module */

import { createHash, randomBytes } from "node:crypto";
import { formatAddress } from "../../base/mod.ts";
import type { SecretRef, SecretSource } from "../model/plan.ts";
import type { DataSource, SecretSpec } from "../model/secret.ts";

/** References contain keys, passwords and metadata: an unsalted hash would let guesses be checked. */
const SALT = randomBytes(16).toString("hex");
/** Sources are large when files are inline, and an on-demand source is part of many references. */
const fingerprints = new WeakMap<SecretSource, string>();

/** The salt of this process' keys, for private files only: it lets guesses be checked. */
export function keySalt(): string {
  return SALT;
}

/** Equal for deeply equal plain data, whatever the order of its fields; discloses nothing of it. */
export function fingerprintOf(value: unknown, salt: string = SALT): string {
  return createHash("sha256").update(salt).update(canonical(value)).digest("hex").slice(0, 32);
}

function canonical(value: unknown): string {
  if (value instanceof Uint8Array) return `b"${Buffer.from(value).toString("base64")}"`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  fields.sort(([a], [b]) => a < b ? -1 : 1);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`)}}`;
}

/**
 * Stable while this process runs: `sds:sds_cluster/web#1f3a9c0d5e7b`. The timeout is no part of it. The
 * `salt` of another process gives that process' key.
 */
export function keyOfRef(ref: SecretRef, salt: string = SALT): string {
  const { type, name, source, defaults } = ref;
  const ofSource = salt === SALT ? fingerprintOfSource(source) : fingerprintOf(source, salt);
  const whole = fingerprintOf({ type, name, source: ofSource, defaults }, salt);
  return `${prefixOf(source)}${name.slice(0, 255)}#${whole.slice(0, 16)}`;
}

function prefixOf(source: SecretSource): string {
  switch (source.kind) {
    case "sds":
      return `sds:${source.server.name}/`;
    case "workload":
      return `workload:${formatAddress(source.address)}/`;
    default:
      return `${source.kind}:`;
  }
}

/** Sources with the same key share one provider. */
export function keyOfProvider(source: SecretSource): string {
  switch (source.kind) {
    case "sds":
      return `sds:${source.server.name}#${fingerprintOfSource(source)}`;
    case "workload":
      // One stream brings every identity and bundle.
      return `workload:${formatAddress(source.address)}`;
    default:
      return source.kind;
  }
}

/** `file /etc/tls/web.pem`, `sds sds_cluster`, `workload unix:///run/spire.sock`. */
export function sourceText(source: SecretSource): string {
  switch (source.kind) {
    case "consul":
      return "consul";
    case "spec":
      return specText(source.spec);
    case "secret_file":
      return `file ${source.path}`;
    case "sds":
      return `sds ${source.server.name}`;
    case "workload":
      return `workload ${formatAddress(source.address)}`;
  }
}

function specText(spec: SecretSpec): string {
  if (spec.type === "certificate") return dataText(spec.chain ?? spec.pkcs12 ?? spec.key);
  const { trustedCa, systemRoots, spiffe, crl } = spec;
  if (!trustedCa && systemRoots) return "system roots";
  const bundle = spiffe?.kind === "map" ? spiffe.source : spiffe?.domains[0]?.bundle;
  return dataText(trustedCa ?? bundle ?? crl);
}

function dataText(source: DataSource | undefined): string {
  switch (source?.kind) {
    case "file":
      return `file ${source.path}`;
    case "environment":
      return `environment ${source.variable}`;
    case "inline":
    case undefined:
      return "configuration";
  }
}

function fingerprintOfSource(source: SecretSource): string {
  let known = fingerprints.get(source);
  if (known === undefined) fingerprints.set(source, known = fingerprintOf(source));
  return known;
}
