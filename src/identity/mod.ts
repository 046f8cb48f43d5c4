/** The identity of peers. Pure. @module */
export { altNamesOf, nameText } from "./certificate_names.ts";
export * from "./certificate.ts";
export {
  type ChainOptions,
  type ChainVerdict,
  identityOf,
  judgeChain,
  type PeerToJudge,
  type TrustedPeer,
  type UntrustedPeer,
} from "./chain.ts";
export {
  type CertificatePair,
  validateCertificatePair,
  validateCredentials,
} from "./credentials.ts";
export type { Extensions } from "./extensions.ts";
export { needsMatchers } from "./leaf_matchers.ts";
export { leafFault } from "./leaf_rules.ts";
export { KEY_USAGE_BIT, type KeyUsage, OID, type Usage } from "./oids.ts";
export * from "./peer_judge.ts";
export { parseRoots, spkiOf } from "./pem_material.ts";
export { PRESENTED_LIMIT, PRESENTED_LIMIT_BYTES, presentedBytes } from "./chain.ts";
export { type RetiredAnchor, retiredAnchors } from "./retired_anchors.ts";
export {
  createPeerValidator,
  type PeerValidator,
  type PeerValidatorOptions,
} from "./rules_validator.ts";
export * from "./select_certificate.ts";
export type { SignatureScheme } from "./signature_scheme.ts";
export * from "./sni.ts";
export * from "./spiffe.ts";
export * from "./spiffe_bundles.ts";
export {
  NO_RULES,
  type PeerRules,
  type SanMatcher,
  type SanType,
  type StringMatcher,
  type Validation,
} from "./validation.ts";
export * from "./wanted_names.ts";
