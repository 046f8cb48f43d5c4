/** From bytes to a checked secret. @module */
export type { TlsFault } from "./load_certificate.ts";
export * from "./load_secret.ts";
export * from "./merge_validation.ts";
export type { Environment, ReadSource } from "./source_bytes.ts";
