/** Picks endpoints of a target. Pure, given clock and random. @module */
export { hashText } from "./consistent_hash.ts";
export { DEFAULT_OUTLIER, judgeHealth, outlierPolicy } from "./health.ts";
export * from "./pool.ts";
export { instanceName } from "./types.ts";
export type { Endpoint, EndpointState, LoadBalancing, OutlierPolicy } from "./types.ts";
