/** Who a peer is. Pure. @module */
export * from "./authority.ts";
export * from "./mint.ts";
export * from "./spiffe.ts";
