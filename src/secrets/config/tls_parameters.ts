/** TLS versions and cipher suites, in our own form and in Envoy's. @module */

import * as v from "valibot";
import { checked, defined, list, reader, type SchemaOf, text } from "../../base/schema.ts";
import type { TlsDirection, TlsVersion } from "../../snapshot/mod.ts";
import { choice, message } from "../envoy/message.ts";
import type { TlsReading } from "./sources.ts";

/** The IANA names that Consul allows in a mesh entry, with those of OpenSSL and BoringSSL. */
const OPENSSL_NAMES: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256",
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: "ECDHE-ECDSA-AES128-SHA",
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: "ECDHE-ECDSA-AES256-SHA",
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: "ECDHE-RSA-AES128-SHA",
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: "ECDHE-RSA-AES256-SHA",
  TLS_RSA_WITH_AES_128_GCM_SHA256: "AES128-GCM-SHA256",
  TLS_RSA_WITH_AES_256_GCM_SHA384: "AES256-GCM-SHA384",
  TLS_RSA_WITH_AES_128_CBC_SHA: "AES128-SHA",
  TLS_RSA_WITH_AES_256_CBC_SHA: "AES256-SHA",
};

/** OpenSSL's name of a TLS 1.2 suite by its IANA name; `undefined`: unknown. */
export function opensslSuite(iana: string): string | undefined {
  return Object.hasOwn(OPENSSL_NAMES, iana) ? OPENSSL_NAMES[iana] : undefined;
}

/** OpenSSL's name of a suite by either name; `undefined`: unknown. */
function cipherSuite(name: string): string | undefined {
  return opensslSuite(name) ?? Object.values(OPENSSL_NAMES).find((known) => known === name);
}

export const VERSION_ENTRIES = {
  minVersion: v.exactOptional(nativeVersion()),
  maxVersion: v.exactOptional(nativeVersion()),
  cipherSuites: list(suite(), 100),
};

/** `undefined`: the proxy's own. */
export function parametersOf(
  found: Pick<TlsDirection, "cipherSuites"> & Partial<TlsDirection>,
  reportUpsideDown: () => void,
): TlsDirection | undefined {
  const { minVersion = "TLSv1.2", maxVersion = "TLSv1.3", cipherSuites } = found;
  if (minVersion > maxVersion) reportUpsideDown();
  const given = found.minVersion ?? found.maxVersion ?? cipherSuites[0];
  return given === undefined ? undefined : { minVersion, maxVersion, cipherSuites };
}

function nativeVersion(): SchemaOf<TlsVersion> {
  return reader((value, report) => {
    if (value === "1.2" || value === "TLSv1.2" || value === "TLSv1_2") return "TLSv1.2";
    if (value === "1.3" || value === "TLSv1.3" || value === "TLSv1_3") return "TLSv1.3";
    return report([], 'must be "1.2" or "1.3"');
  });
}

function suite(): SchemaOf<string> {
  return reader((value, report) => {
    const known = typeof value === "string" ? cipherSuite(value) : undefined;
    return known ?? report([], "is no cipher suite that is known here");
  });
}

const ENVOY_VERSION = choice<TlsVersion | "too_old" | "auto">({
  TLS_AUTO: [0, "auto"],
  TLSv1_0: [1, "too_old"],
  TLSv1_1: [2, "too_old"],
  TLSv1_2: [3, "TLSv1.2"],
  TLSv1_3: [4, "TLSv1.3"],
});

export function envoyParameters(reading: TlsReading): SchemaOf<{ tls: TlsDirection | undefined }> {
  const refused = "cannot be honoured: the TLS library's own choice is used";
  const fields = message({
    tlsMinimumProtocolVersion: v.optional(ENVOY_VERSION, "TLS_AUTO"),
    tlsMaximumProtocolVersion: v.optional(ENVOY_VERSION, "TLS_AUTO"),
    cipherSuites: list(text(), 100),
  }, {
    refused: { ecdhCurves: refused, signatureAlgorithms: refused, compliancePolicies: refused },
  });
  return checked(fields, (found, report) => {
    const { tlsMinimumProtocolVersion: least, tlsMaximumProtocolVersion: most } = found;
    if (most === "too_old") {
      return report(["tls_maximum_protocol_version"], "is below TLS 1.2, the least that is spoken");
    }
    if (least === "too_old") reading.warn("tls_minimum_protocol_version was raised to TLS 1.2");
    const minVersion = least === "too_old" ? "TLSv1.2" : least === "auto" ? undefined : least;
    const maxVersion = most === "auto" ? undefined : most;
    // `[A|B]` are suites of equal preference in Envoy; here the first one is preferred.
    const cipherSuites = found.cipherSuites.flatMap((entry, index) =>
      entry.replace(/^\[(.*)\]$/, "$1").split("|").map((name) =>
        cipherSuite(name) ??
          report(["cipher_suites", index], `names "${name}", which is not known here`)
      )
    ).filter((suite) => suite !== undefined);
    const tls = parametersOf({ ...defined({ minVersion, maxVersion }), cipherSuites }, () => {
      report(["tls_minimum_protocol_version"], "is above tls_maximum_protocol_version");
    });
    return { tls };
  });
}
