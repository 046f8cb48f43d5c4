/** What is true now: the parts of a snapshot, what changed between two, and one patched by that. @module */
export * from "./chains.ts";
export * from "./snapshot.ts";
export * from "./update.ts";
export * from "./upstream_names.ts";
