/** Loads a secret from bytes and checks it. @module */
export * from "./load_secret.ts";
export type { Environment, ReadSource } from "./source_bytes.ts";
