/**
 * The snapshot that the data path acts on: its parts, the difference between two snapshots, and patching.
 * @module
 */
export * from "./snapshot.ts";
export * from "./update.ts";
export * from "./chains.ts";
