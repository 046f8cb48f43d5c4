/** A leaf and roots as one credentials value, judged whole. @module */

import { messageOf } from "../../base/mod.ts";
import type { Leaf, Roots } from "../../consul/mod.ts";
import { validateCredentials } from "../../identity/mod.ts";
import type { Content, CredentialsPart } from "../../snapshot/mod.ts";

export type CredentialsVerdict =
  | { readonly kind: "valid"; readonly credentials: Content<CredentialsPart> }
  | { readonly kind: "invalid"; readonly reason: string };

export interface LeafAndRoots extends Pick<PemInput, "service" | "nowMs" | "strictSpiffeChain"> {
  readonly leaf: Leaf;
  readonly roots: Roots;
}

/** Pure; an argument of `assemble()` so that tests can leave the cryptography out. */
export type JudgeCredentials = (input: LeafAndRoots) => CredentialsVerdict;

export function judgeCredentials(input: LeafAndRoots): CredentialsVerdict {
  const { leaf, roots, ...options } = input;
  return judgePems({
    ...options,
    certPem: leaf.certPem,
    keyPem: leaf.keyPem,
    rootPems: roots.roots.map(({ pem }) => pem),
    trustDomains: trustDomainsOf(roots),
  });
}

export interface PemInput {
  readonly certPem: string;
  readonly keyPem: string;
  readonly rootPems: readonly string[];
  readonly trustDomains: readonly string[];
  /** The service that the leaf must be for. */
  readonly service: string;
  readonly nowMs: number;
  readonly strictSpiffeChain: boolean;
}

/** The same for credentials from elsewhere. */
export function judgePems({ service, ...input }: PemInput): CredentialsVerdict {
  try {
    const { id, ...valid } = validateCredentials(input);
    if (id.service.toLowerCase() !== service.toLowerCase()) {
      const reason = `the leaf is for service "${id.service}", not "${service}"`;
      return { kind: "invalid", reason };
    }
    // The agent lists roots by their random ids; their order means nothing.
    return { kind: "valid", credentials: { ...valid, rootPems: [...valid.rootPems].sort() } };
  } catch (error) {
    return { kind: "invalid", reason: messageOf(error) };
  }
}

/** The reply's own first, then external ones of its roots, each once. */
function trustDomainsOf(roots: Roots): readonly string[] {
  const external = roots.roots.flatMap(({ externalTrustDomain }) => externalTrustDomain || []);
  return [...new Set([roots.trustDomain, ...external.sort()])];
}
