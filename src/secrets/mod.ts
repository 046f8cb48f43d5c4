/** Where credentials come from besides the agent: files, SDS, the Workload API. @module */
export * from "./cipher_suites.ts";
export * from "./envoy/mod.ts";
export * from "./held.ts";
export * from "./plan.ts";
export * from "./provider.ts";
export * from "./secret.ts";
export * from "./spec.ts";
export * from "./values.ts";
