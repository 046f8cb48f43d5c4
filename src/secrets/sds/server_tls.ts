/**
 * TLS towards an SDS server, from files or inline: read before each connection, so that the next one
 * uses what was rotated meanwhile. Our own check decides about the server; the library's must agree
 * where it can express the rules.
 *
 * @module
 */

import { prepareRegexes, ProxyError } from "../../base/mod.ts";
import { needsMatchers, type Validation } from "../../identity/mod.ts";
import {
  areRoots,
  type DialCredentials,
  type DialTls,
  serverJudge,
  serverNameMatcher,
} from "../../http/mod.ts";
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

export function serverTls({ tls, name }: SdsServer, options: ServerTlsOptions): DialTls | null {
  if (!tls) return null;
  const { load, nowMs } = options;
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
      const shown = own ?? { certPem: "", keyPem: "" };
      const { validation } = trust;
      const rules = named(validation, { serverName, server: name });
      if (needsMatchers(rules)) await prepareRegexes();
      return {
        rootPems: validation.kind === "ca" ? validation.rootPems : [],
        certPem: shown.certPem,
        keyPem: shown.keyPem,
        peerCheck: isPlain(validation) ? "checked" : "shown",
        judge: serverJudge(rules, nowMs),
      };
    },
  };
}

/** The rules with the server's name among them, unless they say themselves who may answer. */
function named(
  validation: Validation,
  { serverName, server }: { readonly serverName: string; readonly server: string },
): Exclude<Validation, { readonly kind: "mesh" }> {
  if (validation.kind === "mesh") return refuse(server, "a mesh's roots do not vouch for it");
  const { rules } = validation;
  const { matchers, spkiPins, certificateHashes } = rules;
  if (matchers.length + spkiPins.length + certificateHashes.length > 0) return validation;
  if (validation.kind === "spiffe") {
    return refuse(server, "SPIFFE rules without a matcher let every identity answer");
  }
  return { ...validation, rules: { ...rules, matchers: [serverNameMatcher(serverName)] } };
}

/** What the library understands alike: names by DNS, roots that are roots, nothing forgiven. */
function isPlain(validation: Validation): validation is CaValidation {
  if (validation.kind !== "ca") return false;
  const { matchers, spkiPins, certificateHashes, allowExpired, acceptUntrusted } = validation.rules;
  if (matchers.length + spkiPins.length + certificateHashes.length > 0) return false;
  if (allowExpired || acceptUntrusted) return false;
  return areRoots(validation.rootPems);
}

function refuse(server: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot check the SDS server "${server}": ${fact}`);
}
