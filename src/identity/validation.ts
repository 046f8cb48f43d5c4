/**
 * Whom we accept, as plain data: it crosses threads with the snapshot and is compiled into a
 * `PeerValidator` where it is used. The kinds differ in where anchors come from and what a leaf must be.
 *
 * @module
 */

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
  /** Dotted, of `other_name` only. */
  readonly oid?: string;
  readonly matcher: StringMatcher;
}

/** What else a peer must satisfy, and what is forgiven. */
export interface PeerRules {
  /** Any one must match one of the leaf's alternative names; empty: no such rule. */
  readonly matchers: readonly SanMatcher[];
  /** Base64 of SHA-256 of the leaf's SubjectPublicKeyInfo. Any pin of either list suffices. */
  readonly spkiPins: readonly string[];
  /** Lower-case hex of SHA-256 of the leaf's DER, no colons. */
  readonly certificateHashes: readonly string[];
  /** PEM, one list each. One list for one CA of a path means that each CA of it needs one. */
  readonly crlPems: readonly string[];
  /** Only the leaf is looked up in the lists (`only_verify_leaf_cert_crl`). */
  readonly onlyLeafCrl: boolean;
  /** CA certificates of a path, the anchor included and the leaf not; Envoy's default is 100. */
  readonly maxDepth: number;
  /** Dates of the whole path are not looked at (`allow_expired_certificate`). */
  readonly allowExpired: boolean;
  /** `ACCEPT_UNTRUSTED`: a failed check of the chain lets the peer in as unverified. */
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
   * Any certificate of these anchors, an intermediate among them included (partial chains). Without an
   * anchor only pins decide; neither anchors nor pins is refused before it gets here, unless
   * `acceptUntrusted` says that this is meant.
   */
  | { readonly kind: "ca"; readonly rootPems: readonly string[]; readonly rules: PeerRules }
  /**
   * X509-SVIDs of these trust domains (SPIFFE X509-SVID 5); a domain's bundle never verifies another's
   * identity. Of the matchers only those of URIs count.
   */
  | {
    readonly kind: "spiffe";
    /** By trust domain of the leaf, lower case: its anchors, PEM, one each. */
    readonly bundles: Readonly<Record<string, readonly string[]>>;
    readonly rules: PeerRules;
  };
