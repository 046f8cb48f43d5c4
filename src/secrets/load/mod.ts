/** From bytes to a checked secret. @module */
export * from "./load_secret.ts";
export * from "./merge_validation.ts";
export type { Environment, ReadSource, TlsFault } from "./source_bytes.ts";
