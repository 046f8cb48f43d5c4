/**
 * The mesh entry's TLS block as what we offer and accept: never below TLS 1.2, and only suites that we
 * know by both of their names.
 *
 * @module
 */

import type { MeshTls, MeshTlsDirection } from "../../consul/mod.ts";
import { opensslSuite } from "../../secrets/mod.ts";
import type { TlsDirection, TlsVersion } from "../../snapshot/mod.ts";

/** What every direction is without a TLS block. */
export const DEFAULT_TLS_DIRECTION: TlsDirection = {
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.3",
  cipherSuites: [],
};

export type TlsJudgement =
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

function versionOf(text: string, automatic: TlsVersion): TlsVersion | "too_old" | undefined {
  switch (text) {
    case "":
    case "TLS_AUTO":
      return automatic;
    case "TLSv1_0":
    case "TLSv1_1":
      return "too_old";
    case "TLSv1_2":
      return "TLSv1.2";
    case "TLSv1_3":
      return "TLSv1.3";
    default:
      return undefined;
  }
}
