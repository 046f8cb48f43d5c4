/**
 * TLS versions and suites, in our own words and in Envoy's.
 *
 * @module
 */

import * as v from "valibot";
import { cipherSuite } from "../cipher_suites.ts";
import { choice, message } from "../envoy/message.ts";
import { checked, list, reader, type SchemaOf, text } from "../../base/schema.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { TlsReading } from "./tls_context.ts";

type Version = TlsDirection["minVersion"];

/** `minVersion`, `maxVersion`, `cipherSuites` of our own form. */
export const VERSION_ENTRIES = {
  minVersion: v.exactOptional(nativeVersion()),
  maxVersion: v.exactOptional(nativeVersion()),
  cipherSuites: list(suite(), 100),
};

/** `undefined`: the proxy's own. */
export function parametersOf(
  found: {
    readonly minVersion?: Version | undefined;
    readonly maxVersion?: Version | undefined;
    readonly cipherSuites: readonly string[];
  },
  reportUpsideDown: () => void,
): TlsDirection | undefined {
  const { minVersion = "TLSv1.2", maxVersion = "TLSv1.3", cipherSuites } = found;
  if (minVersion > maxVersion) reportUpsideDown();
  const given = found.minVersion ?? found.maxVersion ?? cipherSuites[0];
  return given === undefined ? undefined : { minVersion, maxVersion, cipherSuites };
}

function nativeVersion(): SchemaOf<Version> {
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

/** A version that is spoken; older ones are `too_old`. */
function envoyVersion(): SchemaOf<Version | "too_old" | "auto"> {
  return choice<Version | "too_old" | "auto">({
    TLS_AUTO: [0, "auto"],
    TLSv1_0: [1, "too_old"],
    TLSv1_1: [2, "too_old"],
    TLSv1_2: [3, "TLSv1.2"],
    TLSv1_3: [4, "TLSv1.3"],
  });
}

/** Envoy's `TlsDirection`. */
export function envoyParameters(
  reading: TlsReading,
): SchemaOf<{ tls: TlsDirection | undefined }> {
  const refused = "cannot be honoured: the TLS library's own choice is used";
  const fields = message({
    tlsMinimumProtocolVersion: v.optional(envoyVersion(), "TLS_AUTO"),
    tlsMaximumProtocolVersion: v.optional(envoyVersion(), "TLS_AUTO"),
    cipherSuites: list(text(), 100),
  }, {
    refused: { ecdhCurves: refused, signatureAlgorithms: refused, compliancePolicies: refused },
  });
  return checked(fields, (found, report) => {
    const { tlsMinimumProtocolVersion: least, tlsMaximumProtocolVersion: most } = found;
    if (most === "too_old") {
      return report(["tls_maximum_protocol_version"], "is below TLS 1.2, the least that is spoken");
    }
    if (least === "too_old") {
      reading.warn("tls_minimum_protocol_version was raised to TLS 1.2");
    }
    const minVersion = least === "too_old" ? "TLSv1.2" : least === "auto" ? undefined : least;
    const maxVersion = most === "auto" ? undefined : most;
    // `[A|B]`: suites of equal preference; here the first comes first.
    const cipherSuites = found.cipherSuites.flatMap((entry, index) =>
      entry.replace(/^\[(.*)\]$/, "$1").split("|").map((name) =>
        cipherSuite(name) ??
          report(["cipher_suites", index], `names "${name}", which is not known here`)
      )
    ).filter((suite) => suite !== undefined);
    const tls = parametersOf({ minVersion, maxVersion, cipherSuites }, () => {
      report(["tls_minimum_protocol_version"], "is above tls_maximum_protocol_version");
    });
    return { tls };
  });
}
