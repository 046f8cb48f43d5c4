/**
 * The mesh entry's HTTP block as rules of the public listener, and its TLS block as what is offered and
 * accepted: never below TLS 1.2, and only suites that are known by both of their names.
 *
 * @module
 */

import type { MeshHttp, MeshTls, MeshTlsDirection } from "../../consul/mod.ts";
import type { PathRules } from "../../http/mod.ts";
import { type HttpSettings, INCOMING_PATH } from "../parts/http_rules.ts";
import { opensslSuite } from "../../secrets/mod.ts";
import type { TlsDirection, TlsVersion } from "../../snapshot/mod.ts";

type HttpJudgement =
  | ({ readonly kind: "taken" } & Pick<HttpSettings, "path" | "sanitizeForwardedClientCert">)
  | { readonly kind: "refused"; readonly reason: string };

/** `undefined`: there is no such block. */
export function judgeMeshHttp(block: MeshHttp | undefined): HttpJudgement {
  if (!block) return { kind: "taken" };
  const { escapedSlashesAction: escaped, underscoresAction: underscored } = block;
  const escapedSlashes = ESCAPED_SLASHES.get(escaped);
  const underscores = UNDERSCORES.get(underscored);
  if (!escapedSlashes) {
    return refused(`PathWithEscapedSlashesAction "${escaped}"`, ESCAPED_SLASHES);
  }
  if (!underscores) {
    return refused(`HeadersWithUnderscoresAction "${underscored}"`, UNDERSCORES);
  }
  return {
    kind: "taken",
    path: {
      normalize: block.normalizesPaths,
      mergeSlashes: block.mergesSlashes,
      escapedSlashes,
      underscores,
    },
    sanitizeForwardedClientCert: block.sanitizesForwardedClientCert,
  };
}

const ESCAPED_SLASHES: ReadonlyMap<string, PathRules["escapedSlashes"]> = new Map([
  ["", INCOMING_PATH.escapedSlashes],
  ["IMPLEMENTATION_SPECIFIC_DEFAULT", INCOMING_PATH.escapedSlashes],
  ["KEEP_UNCHANGED", "keep"],
  ["REJECT_REQUEST", "reject"],
  ["UNESCAPE_AND_REDIRECT", "redirect"],
  ["UNESCAPE_AND_FORWARD", "unescape"],
]);

const UNDERSCORES: ReadonlyMap<string, PathRules["underscores"]> = new Map([
  ["", INCOMING_PATH.underscores],
  ["ALLOW", "allow"],
  ["REJECT_REQUEST", "reject"],
  ["DROP_HEADER", "drop"],
]);

function refused(what: string, known: ReadonlyMap<string, unknown>): HttpJudgement {
  const names = [...known.keys()].filter((name) => name !== "").join(", ");
  return {
    kind: "refused",
    reason: `HTTP.Incoming.RequestNormalization.${what} is not known; write one of ${names}`,
  };
}

/** Both directions without a TLS block. */
export const DEFAULT_TLS_DIRECTION: TlsDirection = {
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.3",
  cipherSuites: [],
};

type TlsJudgement =
  | {
    readonly kind: "taken";
    readonly incoming: TlsDirection;
    readonly outgoing: TlsDirection;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "refused"; readonly reason: string };

/** Both directions, or why the block cannot be used; `undefined` is Consul's defaults. */
export function judgeMeshTls(block: MeshTls | undefined): TlsJudgement {
  const warnings: string[] = [];
  const incoming = judgeDirection("Incoming", block?.incoming, warnings);
  if (typeof incoming === "string") return { kind: "refused", reason: incoming };
  const outgoing = judgeDirection("Outgoing", block?.outgoing, warnings);
  if (typeof outgoing === "string") return { kind: "refused", reason: outgoing };
  return { kind: "taken", incoming, outgoing, warnings };
}

function judgeDirection(
  name: string,
  block: MeshTlsDirection | undefined,
  warnings: string[],
): TlsDirection | string {
  if (!block) return DEFAULT_TLS_DIRECTION;
  const minVersion = versionOf(block.minVersion, "TLSv1.2");
  const maxVersion = versionOf(block.maxVersion, "TLSv1.3");
  if (!minVersion) return `TLS.${name}.TLSMinVersion "${block.minVersion}" is not known`;
  if (!maxVersion) return `TLS.${name}.TLSMaxVersion "${block.maxVersion}" is not known`;
  if (maxVersion === "too_old") {
    return `TLS.${name}.TLSMaxVersion ${block.maxVersion} is below TLS 1.2, which is the least that is spoken`;
  }
  if (minVersion === "too_old") {
    warnings.push(`TLS.${name}.TLSMinVersion ${block.minVersion} was raised to TLS 1.2`);
  }
  const min = minVersion === "too_old" ? "TLSv1.2" : minVersion;
  if (min > maxVersion) return `TLS.${name} allows no version: ${min} is above ${maxVersion}`;
  const cipherSuites: string[] = [];
  for (const suite of block.cipherSuites) {
    const openssl = opensslSuite(suite);
    if (!openssl) return `TLS.${name}.CipherSuites names "${suite}", which is not known`;
    cipherSuites.push(openssl);
  }
  return { minVersion: min, maxVersion, cipherSuites };
}

const VERSIONS: ReadonlyMap<string, TlsVersion | "too_old"> = new Map([
  ["TLSv1_0", "too_old"],
  ["TLSv1_1", "too_old"],
  ["TLSv1_2", "TLSv1.2"],
  ["TLSv1_3", "TLSv1.3"],
]);

function versionOf(text: string, automatic: TlsVersion): TlsVersion | "too_old" | undefined {
  return text === "" || text === "TLS_AUTO" ? automatic : VERSIONS.get(text);
}
