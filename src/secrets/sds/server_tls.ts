/**
 * TLS towards an SDS server, from files or inline: read before each connection, so that the next one
 * uses what was rotated meanwhile. Our own check decides about the server; the library's must agree
 * where it can express the rules.
 *
 * @module
 */

import { prepareRegexes, ProxyError } from "../../base/mod.ts";
import {
  createPeerValidator,
  needsMatchers,
  parseCertificate,
  sameBytes,
  type Validation,
} from "../../identity/mod.ts";
import { parsePem } from "../../wire/mod.ts";
import type { GrpcTls, GrpcTlsMaterial } from "../../grpc/mod.ts";
import type { SdsServer } from "../plan.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

export interface ServerTlsOptions {
  /** Reads and checks; throws `credentials_invalid`. */
  readonly load: (spec: SecretSpec) => Promise<Secret>;
  /** Wall clock. */
  readonly nowMs: () => number;
}

type CaValidation = Validation & { readonly kind: "ca" };

export function serverTls({ tls, name }: SdsServer, options: ServerTlsOptions): GrpcTls | null {
  if (!tls) return null;
  const { load, nowMs } = options;
  const { serverName, certificate } = tls;
  return {
    serverName,
    async material(): Promise<GrpcTlsMaterial> {
      const [trust, own] = await Promise.all([
        load(tls.validation),
        certificate ? load(certificate) : undefined,
      ]);
      if (trust.type !== "validation" || (own && own.type !== "certificate")) {
        return refuse(name, "its credentials are of the wrong kinds");
      }
      const shown = own ?? { certPem: "", keyPem: "" };
      const { validation } = trust;
      return {
        rootPems: validation.kind === "ca" ? validation.rootPems : [],
        certPem: shown.certPem,
        keyPem: shown.keyPem,
        peerCheck: isPlain(validation) ? "checked" : "shown",
        judge: await judgeOf(named(validation, { serverName, server: name }), nowMs),
      };
    },
  };
}

/** The rules with the server's name among them, unless they say themselves who may answer. */
function named(
  validation: Validation,
  { serverName, server }: { readonly serverName: string; readonly server: string },
): Validation {
  if (validation.kind === "mesh") return refuse(server, "a mesh's roots do not vouch for it");
  const { rules } = validation;
  const { matchers, spkiPins, certificateHashes } = rules;
  if (matchers.length + spkiPins.length + certificateHashes.length > 0) return validation;
  if (validation.kind === "spiffe") {
    return refuse(server, "SPIFFE rules without a matcher let every identity answer");
  }
  const isIp = serverName.includes(":") || /^\d+(\.\d+){3}$/.test(serverName);
  const matcher = { kind: "exact", value: serverName, ignoreCase: !isIp } as const;
  return { ...validation, rules: { ...rules, matchers: [{ type: isIp ? "ip" : "dns", matcher }] } };
}

async function judgeOf(
  validation: Validation,
  nowMs: () => number,
): Promise<NonNullable<GrpcTlsMaterial["judge"]>> {
  if (needsMatchers(validation)) await prepareRegexes();
  const options = { serviceTrustDomains: [], strictSpiffeChain: false };
  const validator = createPeerValidator(validation, options);
  return ([leaf, ...presented]) => {
    if (!leaf) return "the server showed no certificate";
    const verdict = validator.judge({ leaf, presented, nowMs: nowMs(), usage: "server" });
    return verdict.kind === "trusted" ? undefined : `the server is not trusted: ${verdict.reason}`;
  };
}

/** What the library understands alike: names by DNS, roots that are roots, nothing forgiven. */
function isPlain(validation: Validation): validation is CaValidation {
  if (validation.kind !== "ca" || validation.rootPems.length === 0) return false;
  const { matchers, spkiPins, certificateHashes, allowExpired, acceptUntrusted } = validation.rules;
  if (matchers.length + spkiPins.length + certificateHashes.length > 0) return false;
  if (allowExpired || acceptUntrusted) return false;
  return validation.rootPems.every((pem) =>
    parsePem(pem, { what: "anchors" }).every(({ der }) => {
      const { issuer, subject } = parseCertificate(der);
      return sameBytes(issuer, subject);
    })
  );
}

function refuse(server: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot check the SDS server "${server}": ${fact}`);
}
