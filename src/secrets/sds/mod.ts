/** Secrets from an SDS server. @module */
export type { FollowFiles } from "./follower.ts";
export { createSdsProvider, type SdsDeps } from "./provider.ts";
