/** Who a peer is. Pure. @module */
export * from "./spiffe.ts";
