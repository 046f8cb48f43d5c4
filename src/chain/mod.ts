/** Resolution of discovery chains. Pure. @module */
export * from "./resolve.ts";
export * from "./compiled_chain.ts";
export * from "./pick_split.ts";
