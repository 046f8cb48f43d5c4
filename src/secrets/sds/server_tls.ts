/** TLS to an SDS server; files are read before each connection, so rotated ones are used. @module */

import { prepareRegexes, ProxyError } from "../../base/mod.ts";
import {
  areRoots,
  type DialCredentials,
  type DialTls,
  serverJudge,
  serverNameMatcher,
} from "../../http/mod.ts";
import { needsMatchers, type PeerRules, type Validation } from "../../identity/mod.ts";
import type { SdsServer } from "../model/plan.ts";
import type { Secret, SecretSpec } from "../model/secret.ts";

export function serverTls(
  { tls, name }: SdsServer,
  { load, nowMs }: {
    /** Reads and checks; throws `credentials_invalid`. */
    readonly load: (spec: SecretSpec) => Promise<Secret>;
    /** Wall clock. */
    readonly nowMs: () => number;
  },
): DialTls | null {
  if (!tls) return null;
  const { serverName, certificate } = tls;
  return {
    serverName,
    async material(): Promise<DialCredentials> {
      const [trust, own] = await Promise.all([
        load(tls.validation),
        certificate ? load(certificate) : undefined,
      ]);
      if (trust.type !== "validation" || (own && own.type !== "certificate")) {
        return refuse(name, "its credentials are of the wrong kinds");
      }
      const { validation } = trust;
      const rules = named(validation, { serverName, server: name });
      if (needsMatchers(rules)) await prepareRegexes();
      return {
        rootPems: validation.kind === "ca" ? validation.rootPems : [],
        certPem: own?.certPem ?? "",
        keyPem: own?.keyPem ?? "",
        peerCheck: isPlain(validation) ? "checked" : "shown",
        judge: serverJudge(rules, nowMs),
      };
    },
  };
}

/** The rules with a matcher of the server's name, unless they name peers themselves. */
function named(
  validation: Validation,
  { serverName, server }: { readonly serverName: string; readonly server: string },
): Exclude<Validation, { readonly kind: "mesh" }> {
  if (validation.kind === "mesh") return refuse(server, "a mesh's roots do not vouch for it");
  const { rules } = validation;
  if (namesPeers(rules)) return validation;
  if (validation.kind === "spiffe") {
    return refuse(server, "SPIFFE rules without a matcher let every identity answer");
  }
  return { ...validation, rules: { ...rules, matchers: [serverNameMatcher(serverName)] } };
}

/** Whether the TLS library applies the same rules: DNS names, roots that are roots, no exceptions. */
function isPlain(validation: Validation): boolean {
  if (validation.kind !== "ca") return false;
  const { rules, rootPems } = validation;
  return !namesPeers(rules) && !rules.allowExpired && !rules.acceptUntrusted && areRoots(rootPems);
}

function namesPeers({ matchers, spkiPins, certificateHashes }: PeerRules): boolean {
  return matchers.length + spkiPins.length + certificateHashes.length > 0;
}

function refuse(server: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot check the SDS server "${server}": ${fact}`);
}
