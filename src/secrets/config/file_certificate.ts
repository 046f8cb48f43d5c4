/**
 * A certificate from files, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import { flag, message, type Reader, reader, type Report } from "../envoy/message.ts";
import { INITIAL_FETCH_TIMEOUT_MS, type SecretRef } from "../plan.ts";
import type { CertificateSpec, DataSource, WatchedDirectory } from "../spec.ts";
import { text } from "../values.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";

export const DIRECTORY_ENTRIES = { watchedDirectory: v.optional(directory()) };

export const PAIR_ENTRIES = {
  cert: v.optional(text()),
  key: v.optional(text()),
  pkcs12: v.optional(text()),
  keyPassword: v.optional(v.pipe(v.string("must be a text"), v.maxLength(4_096, "is too long"))),
  keyPasswordFile: v.optional(text()),
  ocspStaple: v.optional(text()),
};

/** Envoy's file with one `Secret`, in place of the files themselves. */
export const SECRET_FILE_ENTRIES = { secretFile: v.optional(text()), name: v.optional(text()) };

export const FILE_CERTIFICATE_ENTRIES = {
  ...PAIR_ENTRIES,
  ...SECRET_FILE_ENTRIES,
  ...DIRECTORY_ENTRIES,
  ...TIMEOUT_ENTRIES,
};

type Fields = v.InferOutput<v.ObjectSchema<typeof FILE_CERTIFICATE_ENTRIES, undefined>>;

/** Reports what does not go together. */
export function fileCertificateRef(found: Fields, report: Report): SecretRef | undefined {
  const { cert, key, pkcs12, keyPassword, keyPasswordFile, ocspStaple, secretFile } = found;
  const initialFetchTimeoutMs = found.initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS;
  if (secretFile !== undefined) {
    for (const [field, value] of Object.entries(found)) {
      if (value !== undefined && Object.hasOwn(PAIR_ENTRIES, field)) {
        report([field], "cannot be beside secretFile, which names the files itself");
      }
    }
    return secretFileRef({ ...found, secretFile }, "certificate");
  }
  if (found.name !== undefined) report(["name"], "goes with secretFile only");
  if (pkcs12 !== undefined) {
    if (cert !== undefined) report(["cert"], "cannot be beside pkcs12, which has one");
    if (key !== undefined) report(["key"], "cannot be beside pkcs12, which has one");
  } else {
    if (cert === undefined) report(["cert"], "is missing; or pkcs12, or secretFile");
    if (key === undefined) report(["key"], "is missing");
  }
  if (keyPassword !== undefined && keyPasswordFile !== undefined) {
    report(["keyPassword"], "cannot be beside keyPasswordFile");
  }
  const password = passwordSource(keyPassword, keyPasswordFile);
  const spec: CertificateSpec = {
    type: "certificate",
    ...(cert !== undefined && { chain: fileSource(cert) }),
    ...(key !== undefined && { key: fileSource(key) }),
    ...(pkcs12 !== undefined && { pkcs12: fileSource(pkcs12) }),
    ...(password && { password }),
    ...(ocspStaple !== undefined && { ocspStaple: fileSource(ocspStaple) }),
    ...(found.watchedDirectory && { watchedDirectory: found.watchedDirectory }),
  };
  return {
    type: "certificate",
    name: cert ?? pkcs12 ?? "",
    source: { kind: "spec", spec, watch: true },
    initialFetchTimeoutMs,
  };
}

/** A secret of Envoy's file; without a name it takes what is there. */
export function secretFileRef(
  found: {
    readonly secretFile: string;
    readonly name?: string | undefined;
    readonly watchedDirectory?: WatchedDirectory | undefined;
    readonly initialFetchTimeout?: number | undefined;
  },
  type: SecretRef["type"],
): SecretRef {
  const { secretFile: path, watchedDirectory } = found;
  return {
    type,
    name: found.name ?? "",
    source: { kind: "secret_file", path, ...(watchedDirectory && { watchedDirectory }) },
    initialFetchTimeoutMs: found.initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS,
  };
}

export function fileSource(path: string): DataSource {
  return { kind: "file", path };
}

function passwordSource(
  password: string | undefined,
  path: string | undefined,
): DataSource | undefined {
  if (path !== undefined) return fileSource(path);
  if (password === undefined) return undefined;
  return { kind: "inline", bytes: new TextEncoder().encode(password) };
}

function directory(): Reader<WatchedDirectory> {
  const fields = message({ path: text(), watchModify: v.optional(flag(), false) }, {
    names: "camelCase",
  });
  return reader((value, report) => {
    const wanted = typeof value === "string" ? { path: value } : value;
    const result = v.safeParse(fields, wanted);
    if (result.success) return result.output;
    return report([], `must be a directory, or { "path", "watchModify" }`);
  });
}
