/** Resolution of discovery chains. Pure. @module */
export { loadBalancing } from "./resolve.ts";
export * from "./resolve.ts";
export * from "./compiled_chain.ts";
export * from "./pick_split.ts";
