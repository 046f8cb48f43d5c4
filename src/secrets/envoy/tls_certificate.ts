/**
 * Envoy's `TlsCertificate`.
 *
 * @module
 */

import * as v from "valibot";
import type { CertificateSpec } from "../spec.ts";
import { checked, defined, type Report, type SchemaOf } from "../../base/schema.ts";
import { dataSource, watchedDirectory } from "./data_source.ts";
import { message } from "./message.ts";

export function tlsCertificate(
  options: { readonly allowFiles: boolean },
): SchemaOf<CertificateSpec> {
  const source = dataSource(options);
  const fields = message({
    certificateChain: v.exactOptional(source),
    privateKey: v.exactOptional(source),
    password: v.exactOptional(source),
    pkcs12: v.exactOptional(source),
    ocspStaple: v.exactOptional(source),
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

type PairSpec = Omit<CertificateSpec, "type">;

/** Chain and key, or PKCS#12; `names` are those that the form has for them. */
export function pairSpec(
  pair: PairSpec,
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
