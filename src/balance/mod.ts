/** Picks endpoints of a target. Pure, given clock and random. @module */
export { hashText } from "./hash.ts";
export * from "./health.ts";
export { DEFAULT_OUTLIER, outlierPolicy } from "./outlier.ts";
export * from "./pool.ts";
export type { Endpoint, EndpointState, LoadBalancing, OutlierPolicy } from "./types.ts";
