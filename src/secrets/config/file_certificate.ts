/**
 * A certificate from files, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import { fieldsOf } from "../envoy/message.ts";
import {
  defined,
  flag,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { pairSpec } from "../envoy/tls_certificate.ts";
import type { SecretRef } from "../plan.ts";
import type { CertificateSpec, DataSource, WatchedDirectory } from "../spec.ts";
import { specRef, TIMEOUT_ENTRIES } from "./sources.ts";

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

/** Envoy's file with one `Secret`, in place of the files themselves, and what both may have besides. */
export const SECRET_FILE_ENTRIES = {
  secretFile: v.exactOptional(text()),
  name: v.exactOptional(text()),
  watchedDirectory: v.exactOptional(directory()),
  ...TIMEOUT_ENTRIES,
};

export const FILE_CERTIFICATE_ENTRIES = { ...PAIR_ENTRIES, ...SECRET_FILE_ENTRIES };

type Output<T extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<T, undefined>>;

/** Does it say anything of a certificate? */
export function saysPair(found: object): boolean {
  return Object.keys(found).some((field) => Object.hasOwn(PAIR_ENTRIES, field));
}

/** Reports what does not go together. */
export function fileCertificateRef(
  found: Output<typeof FILE_CERTIFICATE_ENTRIES>,
  report: Report,
): SecretRef {
  const { cert, pkcs12, initialFetchTimeout } = found;
  const taken = { type: "certificate", beside: PAIR_ENTRIES, whose: "files" } as const;
  return secretFileRef(found, taken, report) ??
    specRef(cert ?? pkcs12 ?? "", fileCertificate(found, report), initialFetchTimeout);
}

/** Reports what does not go together. */
export function fileCertificate(
  found: Output<typeof PAIR_ENTRIES> & { readonly watchedDirectory?: WatchedDirectory },
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

/** A secret of Envoy's file, where one is named; without a name it takes what is there. */
export function secretFileRef(
  found: Output<typeof SECRET_FILE_ENTRIES>,
  { type, beside, whose }: {
    readonly type: SecretRef["type"];
    /** Fields for which it leaves no room. */
    readonly beside: object;
    readonly whose: "files" | "roots";
  },
  report: Report,
): SecretRef | undefined {
  const { secretFile: path, name, initialFetchTimeout: initialFetchTimeoutMs } = found;
  if (path === undefined) {
    return name === undefined ? undefined : report(["name"], "goes with secretFile only");
  }
  for (const field of Object.keys(found)) {
    if (!Object.hasOwn(beside, field)) continue;
    report([field], `cannot be beside secretFile, which names the ${whose} itself`);
  }
  const directory = defined({ watchedDirectory: found.watchedDirectory });
  const source = { kind: "secret_file", path, ...directory } as const;
  return { type, name: name ?? "", source, initialFetchTimeoutMs };
}

export function fileSource(path: string): DataSource;
export function fileSource(path: string | undefined): DataSource | undefined;
export function fileSource(path: string | undefined): DataSource | undefined {
  return path === undefined ? undefined : { kind: "file", path };
}

function directory(): SchemaOf<WatchedDirectory> {
  const fields = fieldsOf({ path: text(), watchModify: v.optional(flag(), false) });
  return reader((value, report) => {
    const found = readValue(fields, typeof value === "string" ? { path: value } : value, () => {
      return undefined;
    });
    return found ?? report([], 'must be a directory, or { "path", "watchModify" }');
  });
}
