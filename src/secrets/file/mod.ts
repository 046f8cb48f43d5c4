/** Secrets in files, followed as they change. @module */
export type { FileReading, FileSystem, WatchHints } from "./files.ts";
export type { FollowEvents, FollowTarget } from "./follower.ts";
export { FileHub, type FileHubOptions } from "./hub.ts";
export * from "./provider.ts";
