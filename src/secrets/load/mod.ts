/** From bytes to a checked secret. @module */
export * from "./load_secret.ts";
export type { Environment, ReadSource, TlsFault } from "./source_bytes.ts";
