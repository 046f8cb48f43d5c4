/** The identity of peers. Pure. @module */
export { altNamesOf, nameText } from "./certificate_names.ts";
export * from "./certificate.ts";
export { type ChainVerdict, type PeerToJudge, type TrustedPeer } from "./chain.ts";
export {
  type CertificatePair,
  parseRoots,
  spkiOf,
  validateCertificatePair,
  validateCredentials,
} from "./credentials.ts";
export { needsMatchers } from "./leaf_rules.ts";
export { KEY_USAGE_BIT, type KeyUsage, OID, type Usage } from "./oids.ts";
export * from "./peer_judge.ts";
export { createPeerValidator, type RetiredAnchor, retiredAnchors } from "./rules_validator.ts";
export * from "./server_names.ts";
export * from "./spiffe.ts";
export {
  NO_RULES,
  type PeerRules,
  type SanMatcher,
  type SanType,
  type StringMatcher,
  type Validation,
} from "./validation.ts";
