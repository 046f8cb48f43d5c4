/** Picks endpoints of a target. Pure, given clock and random. @module */
export { hashText } from "./consistent_hash.ts";
export {
  DEFAULT_OUTLIER,
  type InstanceHealth,
  judgeHealth,
  outlierPolicy,
  type Usability,
} from "./health.ts";
export * from "./pool.ts";
export type { Endpoint, EndpointState, LoadBalancing, OutlierPolicy } from "./types.ts";
