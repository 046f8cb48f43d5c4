/** The peers that are accepted, as plain data: it crosses threads and is compiled where it is used. @module */

import { ProxyError } from "../base/mod.ts";

/** Envoy's `SubjectAltNameMatcher.san_type`. */
export type SanType = "email" | "dns" | "uri" | "ip" | "other_name";

/** Envoy's `StringMatcher`; a regex is RE2's language and matches whole values. */
export type StringMatcher =
  | {
    readonly kind: "exact" | "prefix" | "suffix" | "contains";
    readonly value: string;
    readonly ignoreCase: boolean;
  }
  | { readonly kind: "regex"; readonly regex: string };

export interface SanMatcher {
  readonly type: SanType;
  /** Dotted; for `other_name` only. */
  readonly oid?: string;
  readonly matcher: StringMatcher;
}

/** Further conditions on a peer, and exceptions. */
export interface PeerRules {
  /** One of them must match one of the leaf's alternative names; empty: no such rule. */
  readonly matchers: readonly SanMatcher[];
  /** Base64 of SHA-256 of the leaf's SubjectPublicKeyInfo. Any pin of either list suffices. */
  readonly spkiPins: readonly string[];
  /** Lower-case hex of SHA-256 of the leaf's DER, no colons. */
  readonly certificateHashes: readonly string[];
  /** PEM, one list each. With any list, each CA of a path needs one. */
  readonly crlPems: readonly string[];
  /** Lists apply to the leaf only (`only_verify_leaf_cert_crl`). */
  readonly onlyLeafCrl: boolean;
  /** CA certificates of a path, with the anchor and without the leaf; Envoy's default is 100. */
  readonly maxDepth: number;
  /** The dates of the whole path are ignored (`allow_expired_certificate`). */
  readonly allowExpired: boolean;
  /** `ACCEPT_UNTRUSTED`: a peer whose chain fails is accepted as unverified. */
  readonly acceptUntrusted: boolean;
}

export const NO_RULES: PeerRules = {
  matchers: [],
  spkiPins: [],
  certificateHashes: [],
  crlPems: [],
  onlyLeafCrl: false,
  maxDepth: 100,
  allowExpired: false,
  acceptUntrusted: false,
};

export type Validation =
  /** Consul's mesh: one Consul service id of a trust domain in force, every root for all of them. */
  | {
    readonly kind: "mesh";
    /** One certificate each. */
    readonly rootPems: readonly string[];
    /** Lower case. */
    readonly trustDomains: readonly string[];
  }
  /**
   * Any certificate of these anchors, which may be intermediates (partial chains). Without an anchor only
   * pins decide; neither anchors nor pins is refused earlier, except with `acceptUntrusted`.
   */
  | { readonly kind: "ca"; readonly rootPems: readonly string[]; readonly rules: PeerRules }
  /**
   * X509-SVIDs of these trust domains (SPIFFE X509-SVID 5); a domain's bundle never verifies another's
   * identity. Only matchers of URIs apply.
   */
  | {
    readonly kind: "spiffe";
    /** By trust domain of the leaf, lower case: its anchors, PEM, one each. */
    readonly bundles: Readonly<Record<string, readonly string[]>>;
    readonly rules: PeerRules;
  };

export function refuseValidation(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
