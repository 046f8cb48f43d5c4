/** Who a peer is. Pure. @module */
export * from "./authority.ts";
export * from "./certificate.ts";
export * from "./chain.ts";
export * from "./credentials.ts";
export type { Extensions } from "./extensions.ts";
export * from "./mint.ts";
export type { KeyUsage } from "./oids.ts";
export type { Usage } from "./path.ts";
export * from "./peer_judge.ts";
export * from "./sni.ts";
export * from "./spiffe.ts";
export * from "./validation.ts";
