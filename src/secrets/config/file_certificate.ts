/**
 * A certificate from files, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import {
  defined,
  flag,
  type OutputOf,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { fieldsOf } from "../envoy/message.ts";
import { pairSpec } from "../envoy/tls_certificate.ts";
import type { SecretRef } from "../model/plan.ts";
import type { CertificateSpec, DataSource, SecretSpec, WatchedDirectory } from "../model/spec.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";

export const PAIR_ENTRIES = {
  cert: v.exactOptional(text()),
  key: v.exactOptional(text()),
  pkcs12: v.exactOptional(text()),
  keyPassword: v.exactOptional(
    v.pipe(v.string("must be a text"), v.maxLength(4_096, "is too long")),
  ),
  keyPasswordFile: v.exactOptional(text()),
  ocspStaple: v.exactOptional(text()),
};

/** Envoy's file with one `Secret` in place of the files themselves, and common fields. */
export const SECRET_FILE_ENTRIES = {
  secretFile: v.exactOptional(text()),
  name: v.exactOptional(text()),
  watchedDirectory: v.exactOptional(directory()),
  ...TIMEOUT_ENTRIES,
};

export const FILE_CERTIFICATE_ENTRIES = { ...PAIR_ENTRIES, ...SECRET_FILE_ENTRIES };

/** Whether any field describes a certificate. */
export function hasPair(found: object): boolean {
  return Object.keys(found).some((field) => Object.hasOwn(PAIR_ENTRIES, field));
}

export function fileCertificateRef(
  found: OutputOf<typeof FILE_CERTIFICATE_ENTRIES>,
  report: Report,
): SecretRef {
  const { cert, pkcs12, initialFetchTimeout } = found;
  const taken = { type: "certificate", beside: PAIR_ENTRIES, whose: "files" } as const;
  return secretFileRef(found, taken, report) ??
    specRef(cert ?? pkcs12 ?? "", fileCertificate(found, report), initialFetchTimeout);
}

export function fileCertificate(
  found: OutputOf<typeof PAIR_ENTRIES> & { readonly watchedDirectory?: WatchedDirectory },
  report: Report,
): CertificateSpec {
  const { cert, key, pkcs12, keyPassword, keyPasswordFile, ocspStaple, watchedDirectory } = found;
  if (keyPassword !== undefined && keyPasswordFile !== undefined) {
    report(["keyPassword"], "cannot be beside keyPasswordFile");
  }
  const password: DataSource | undefined = keyPassword === undefined
    ? fileSource(keyPasswordFile)
    : { kind: "inline", bytes: new TextEncoder().encode(keyPassword) };
  const pair = defined({
    chain: fileSource(cert),
    key: fileSource(key),
    pkcs12: fileSource(pkcs12),
    password,
    ocspStaple: fileSource(ocspStaple),
    watchedDirectory,
  });
  return pairSpec(pair, { chain: "cert", key: "key", or: "pkcs12, or secretFile" }, report);
}

/** The secret of `secretFile`, if there is one; without a name, any secret in the file will do. */
export function secretFileRef(
  found: OutputOf<typeof SECRET_FILE_ENTRIES>,
  { type, beside, whose }: {
    readonly type: SecretRef["type"];
    /** Fields that exclude it. */
    readonly beside: object;
    readonly whose: "files" | "roots";
  },
  report: Report,
): SecretRef | undefined {
  const { secretFile: path, name, watchedDirectory, initialFetchTimeout } = found;
  if (path === undefined) {
    return name === undefined ? undefined : report(["name"], "goes with secretFile only");
  }
  for (const field of Object.keys(found)) {
    if (!Object.hasOwn(beside, field)) continue;
    report([field], `cannot be beside secretFile, which names the ${whose} itself`);
  }
  return {
    type,
    name: name ?? "",
    source: { kind: "secret_file", path, ...defined({ watchedDirectory }) },
    initialFetchTimeoutMs: initialFetchTimeout,
  };
}

/** A secret that the configuration describes itself; its files are watched. */
export function specRef(name: string, spec: SecretSpec, initialFetchTimeoutMs: number): SecretRef {
  const source = { kind: "spec", spec, watch: true } as const;
  return { type: spec.type, name, source, initialFetchTimeoutMs };
}

export function fileSource(path: string): DataSource;
export function fileSource(path: string | undefined): DataSource | undefined;
export function fileSource(path: string | undefined): DataSource | undefined {
  return path === undefined ? undefined : { kind: "file", path };
}

function directory(): SchemaOf<WatchedDirectory> {
  const fields = fieldsOf({ path: text(), watchModify: v.optional(flag(), false) });
  return reader((value, report) => {
    const given = typeof value === "string" ? { path: value } : value;
    return readValue(fields, given, () => undefined) ??
      report([], 'must be a directory, or { "path", "watchModify" }');
  });
}
