/** Who a peer is. Pure. @module */
export { altNamesOf } from "./alt_names.ts";
export * from "./certificate.ts";
export {
  type ChainOptions,
  type ChainVerdict,
  identityOf,
  judgeChain,
  leafFault,
  type LeafIdentity,
  type PeerToJudge,
  type TrustedPeer,
  type UntrustedPeer,
} from "./chain.ts";
export * from "./certificate_pair.ts";
export * from "./mesh_credentials.ts";
export { nameText } from "./name_text.ts";
export type { Extensions } from "./extensions.ts";
export { KEY_USAGE_BIT, type KeyUsage, OID } from "./oids.ts";
export { spkiOf } from "./pem_material.ts";
export type { Usage } from "./path.ts";
export * from "./peer_judge.ts";
export * from "./peer_validator.ts";
export { PRESENTED_LIMIT, PRESENTED_LIMIT_BYTES, presentedBytes } from "./presented.ts";
export { type RetiredAnchor, retiredAnchors } from "./retired_anchors.ts";
export type { PeerValidator, PeerValidatorOptions } from "./rules_validator.ts";
export * from "./select_certificate.ts";
export * from "./sni.ts";
export * from "./spiffe.ts";
export * from "./spiffe_bundles.ts";
export { needsMatchers } from "./string_matcher.ts";
export * from "./validation.ts";
export * from "./wanted_names.ts";
