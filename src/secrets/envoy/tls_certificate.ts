/**
 * Envoy's `TlsCertificate`.
 *
 * @module
 */

import * as v from "valibot";
import type { CertificateSpec } from "../spec.ts";
import { dataSource, watchedDirectory } from "./data_source.ts";
import { checked, message, type Reader } from "./message.ts";

export function tlsCertificate(options: { readonly allowFiles: boolean }): Reader<CertificateSpec> {
  const source = dataSource(options);
  const fields = message({
    certificateChain: v.optional(source),
    privateKey: v.optional(source),
    password: v.optional(source),
    pkcs12: v.optional(source),
    ocspStaple: v.optional(source),
    watchedDirectory: v.optional(watchedDirectory(options)),
  }, {
    refused: {
      privateKeyProvider: "cannot be honoured: give the key as private_key",
      signedCertificateTimestamp: "cannot be honoured: no timestamps are sent",
    },
  });
  return checked(fields, (found, report): CertificateSpec | undefined => {
    const { certificateChain, privateKey, pkcs12, password, ocspStaple } = found;
    if (pkcs12) {
      if (certificateChain) report(["certificate_chain"], "cannot be beside pkcs12, which has one");
      if (privateKey) report(["private_key"], "cannot be beside pkcs12, which has one");
    } else {
      if (!certificateChain) {
        report(["certificate_chain"], "is missing; or pkcs12, with key and chain");
      }
      if (!privateKey) report(["private_key"], "is missing");
    }
    return {
      type: "certificate",
      ...(certificateChain && { chain: certificateChain }),
      ...(privateKey && { key: privateKey }),
      ...(pkcs12 && { pkcs12 }),
      ...(password && { password }),
      ...(ocspStaple && { ocspStaple }),
      ...(found.watchedDirectory && { watchedDirectory: found.watchedDirectory }),
    };
  });
}
