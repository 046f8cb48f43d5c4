/** From bytes to a checked secret. @module */
export type { TlsFault } from "./certificate.ts";
export * from "./load.ts";
export * from "./merge.ts";
export type { Environment, ReadSource } from "./source.ts";
