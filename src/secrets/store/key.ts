/**
 * Which references mean the same secret, and how a source is called in front of people.
 *
 * @module
 */

import { createHash, randomBytes } from "node:crypto";
import { formatAddress } from "../../base/mod.ts";
import type { SecretRef, SecretSource, ValidationRef } from "../plan.ts";
import type { DataSource, SecretSpec } from "../spec.ts";

/** References hold keys, passwords and metadata: without a salt their hash would let guesses be checked. */
const SALT = randomBytes(16).toString("hex");
/** Sources are large where files are inline, and an on-demand one is part of many references. */
const sources = new WeakMap<SecretSource, string>();

/** What this process makes keys with. For private files only: who knows it can check guesses. */
export function keySalt(): string {
  return SALT;
}

/** Equal for plain data that is deeply equal, whatever the order of its fields; tells nothing of it. */
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
 * Stable while this process runs: `sds:sds_cluster/web#1f3a9c0d5e7b`. How long to wait is no part of it.
 * With the `salt` of another process: the key there.
 */
export function keyOfRef(ref: SecretRef, salt: string = SALT): string {
  const { type, name, source, defaults } = ref;
  const ofSource = salt === SALT ? fingerprintOfSource(source) : fingerprintOf(source, salt);
  const whole = fingerprintOf({ type, name, source: ofSource, defaults }, salt);
  return `${prefixOf(ref)}#${whole.slice(0, 16)}`;
}

/** Sources with the same key share one provider. */
export function keyOfProvider(source: SecretSource): string {
  switch (source.kind) {
    case "consul":
    case "spec":
    case "secret_file":
      return source.kind;
    case "sds":
      return `sds:${source.server.name}#${fingerprintOfSource(source)}`;
    case "workload":
      // One stream brings every identity and bundle.
      return `workload:${formatAddress(source.address)}`;
  }
}

/** The reference that stands for a validation with its defaults. */
export function refOfValidation({ secret, defaults }: ValidationRef): SecretRef {
  return defaults ? { ...secret, defaults } : secret;
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

function prefixOf({ name, source }: SecretRef): string {
  const short = name.slice(0, 255);
  switch (source.kind) {
    case "sds":
      return `sds:${source.server.name}/${short}`;
    case "workload":
      return `workload:${formatAddress(source.address)}/${short}`;
    default:
      return `${source.kind}:${short}`;
  }
}

function specText(spec: SecretSpec): string {
  switch (spec.type) {
    case "certificate":
      return dataText(spec.chain ?? spec.pkcs12 ?? spec.key);
    case "validation":
      return spec.trustedCa || !spec.systemRoots
        ? dataText(spec.trustedCa ?? bundleOf(spec) ?? spec.crl)
        : "system roots";
  }
}

function bundleOf({ spiffe }: SecretSpec & { type: "validation" }): DataSource | undefined {
  return spiffe?.kind === "map" ? spiffe.source : spiffe?.domains[0]?.bundle;
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
  let known = sources.get(source);
  if (known === undefined) sources.set(source, known = fingerprintOf(source));
  return known;
}
