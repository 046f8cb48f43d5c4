/**
 * Envoy's `DataSource`, `WatchedDirectory` and `TlsCertificate`.
 *
 * @module
 */

import * as v from "valibot";
import { checked, defined, flag, type Report, type SchemaOf, text } from "../../base/schema.ts";
import type { CertificateSpec, DataSource, WatchedDirectory } from "../model/secret.ts";
import { bytes, longText, message } from "./message.ts";

export interface SecretOptions {
  /** Whether files and environment variables of this machine may be named: not by a server. */
  readonly allowFiles: boolean;
}

/** More than the largest bundle of roots in use. */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

export function dataSource({ allowFiles }: SecretOptions): SchemaOf<DataSource> {
  const fields = message({
    filename: v.exactOptional(text()),
    inlineBytes: v.exactOptional(bytes(INLINE_LIMIT_BYTES)),
    inlineString: v.exactOptional(longText(INLINE_LIMIT_BYTES)),
    environmentVariable: v.exactOptional(text()),
  }, {
    oneOf: ["filename", "inlineBytes", "inlineString", "environmentVariable"],
    refused: {
      watchedDirectory:
        "cannot be honoured here; a file's own directory is always watched, and the " +
        "secret may have a watched_directory",
    },
  });
  return checked(fields, (found, report): DataSource | undefined => {
    const { filename, inlineBytes, inlineString, environmentVariable: variable = "" } = found;
    if (inlineBytes !== undefined) return { kind: "inline", bytes: inlineBytes };
    if (inlineString !== undefined) {
      return { kind: "inline", bytes: new TextEncoder().encode(inlineString) };
    }
    if (!allowFiles) {
      return report([], "must be inline: a server's secret may not name files or variables here");
    }
    return filename === undefined
      ? { kind: "environment", variable }
      : { kind: "file", path: filename };
  });
}

export function watchedDirectory({ allowFiles }: SecretOptions): SchemaOf<WatchedDirectory> {
  const fields = message({ path: text(), watchModify: v.optional(flag(), false) });
  return checked(fields, (directory, report) => {
    if (allowFiles) return directory;
    return report([], "cannot be honoured: a server's secret may not name directories here");
  });
}

export function tlsCertificate(options: SecretOptions): SchemaOf<CertificateSpec> {
  const source = v.exactOptional(dataSource(options));
  const fields = message({
    certificateChain: source,
    privateKey: source,
    password: source,
    pkcs12: source,
    ocspStaple: source,
    watchedDirectory: v.exactOptional(watchedDirectory(options)),
  }, {
    refused: {
      privateKeyProvider: "cannot be honoured: give the key as private_key",
      signedCertificateTimestamp: "cannot be honoured: no timestamps are sent",
    },
  });
  return checked(fields, ({ certificateChain: chain, privateKey: key, ...rest }, report) => {
    const names = {
      chain: "certificate_chain",
      key: "private_key",
      or: "pkcs12, with key and chain",
    };
    return pairSpec({ ...rest, ...defined({ chain, key }) }, names, report);
  });
}

/** Chain and key, or PKCS#12; `names` are those of the form. */
export function pairSpec(
  pair: Omit<CertificateSpec, "type">,
  names: { readonly chain: string; readonly key: string; readonly or: string },
  report: Report,
): CertificateSpec {
  const { chain, key, pkcs12 } = pair;
  if (pkcs12) {
    if (chain) report([names.chain], "cannot be beside pkcs12, which has one");
    if (key) report([names.key], "cannot be beside pkcs12, which has one");
  } else {
    if (!chain) report([names.chain], `is missing; or ${names.or}`);
    if (!key) report([names.key], "is missing");
  }
  return { type: "certificate", ...pair };
}
