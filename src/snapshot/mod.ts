/** The snapshot that the data path acts on: its parts, differences and patching. @module */
export * from "./snapshot.ts";
export * from "./tracing_part.ts";
export * from "./update.ts";
export * from "./chains.ts";
