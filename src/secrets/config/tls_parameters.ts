/**
 * TLS versions and suites, in our own words and in Envoy's.
 *
 * @module
 */

import * as v from "valibot";
import { cipherSuite } from "../cipher_suites.ts";
import {
  checked,
  choice,
  list,
  message,
  type Reader,
  reader,
  type Report,
} from "../envoy/message.ts";
import type { TlsParameters } from "../plan.ts";
import { text } from "../values.ts";
import type { Reading } from "./tls_context.ts";

type Version = TlsParameters["minVersion"];

/** `minVersion`, `maxVersion`, `cipherSuites` of our own form. */
export const VERSION_ENTRIES = {
  minVersion: v.optional(nativeVersion()),
  maxVersion: v.optional(nativeVersion()),
  cipherSuites: list(suite(), 100),
};

/** `undefined`: the proxy's own. */
export function parametersOf(
  found: {
    readonly minVersion?: Version | undefined;
    readonly maxVersion?: Version | undefined;
    readonly cipherSuites: readonly string[];
  },
  report: Report,
): TlsParameters | undefined {
  const { minVersion = "TLSv1.2", maxVersion = "TLSv1.3", cipherSuites } = found;
  if (minVersion > maxVersion) report(["minVersion"], "is above maxVersion");
  const given = found.minVersion ?? found.maxVersion ?? cipherSuites[0];
  return given === undefined ? undefined : { minVersion, maxVersion, cipherSuites };
}

function nativeVersion(): Reader<Version> {
  return reader((value, report) => {
    if (value === "1.2" || value === "TLSv1.2" || value === "TLSv1_2") return "TLSv1.2";
    if (value === "1.3" || value === "TLSv1.3" || value === "TLSv1_3") return "TLSv1.3";
    return report([], 'must be "1.2" or "1.3"');
  });
}

function suite(): Reader<string> {
  return reader((value, report) => {
    const known = typeof value === "string" ? cipherSuite(value) : undefined;
    return known ?? report([], "is no cipher suite that is known here");
  });
}

const ENVOY_VERSIONS = [
  { name: "TLS_AUTO", number: 0, value: undefined },
  { name: "TLSv1_0", number: 1, value: "TLSv1.0" },
  { name: "TLSv1_1", number: 2, value: "TLSv1.1" },
  { name: "TLSv1_2", number: 3, value: "TLSv1.2" },
  { name: "TLSv1_3", number: 4, value: "TLSv1.3" },
] as const;

/** A version that is spoken; older ones are `too_old`. */
type EnvoyVersion = { readonly version: Version | "too_old" | undefined };

function envoyVersion(): Reader<EnvoyVersion> {
  return checked(
    choice(ENVOY_VERSIONS.map((version) => ({ ...version, value: { version: version.value } }))),
    ({ version }) => ({
      version: version === "TLSv1.0" || version === "TLSv1.1" ? "too_old" : version,
    }),
  );
}

/** Envoy's `TlsParameters`. */
export function envoyParameters(reading: Reading): Reader<{ tls: TlsParameters | undefined }> {
  const refused = "cannot be honoured: the TLS library's own choice is used";
  const fields = message({
    tlsMinimumProtocolVersion: v.optional(envoyVersion()),
    tlsMaximumProtocolVersion: v.optional(envoyVersion()),
    cipherSuites: list(text(), 100),
  }, {
    refused: { ecdhCurves: refused, signatureAlgorithms: refused, compliancePolicies: refused },
  });
  return checked(fields, (found, report) => {
    const least = found.tlsMinimumProtocolVersion?.version;
    const most = found.tlsMaximumProtocolVersion?.version;
    if (most === "too_old") {
      return report(["tls_maximum_protocol_version"], "is below TLS 1.2, the least that is spoken");
    }
    if (least === "too_old") {
      reading.warn("tls_minimum_protocol_version was raised to TLS 1.2");
    }
    const minVersion = least === "too_old" ? "TLSv1.2" : least;
    if ((minVersion ?? "TLSv1.2") > (most ?? "TLSv1.3")) {
      report(["tls_minimum_protocol_version"], "is above tls_maximum_protocol_version");
    }
    const cipherSuites: string[] = [];
    found.cipherSuites.forEach((entry, index) => {
      // `[A|B]`: suites of equal preference; here the first comes first.
      for (const name of entry.replace(/^\[(.*)\]$/, "$1").split("|")) {
        const known = cipherSuite(name);
        if (known) cipherSuites.push(known);
        else report(["cipher_suites", index], `names "${name}", which is not known here`);
      }
    });
    return { tls: parametersOf({ minVersion, maxVersion: most, cipherSuites }, report) };
  });
}
