/**
 * A Consul-like agent in memory, or servers without one: catalog, CA, intentions, chains, blocking queries,
 * ACL.
 *
 * @module
 */
export * from "./agent.ts";
export type { Fault } from "./http/faults.ts";
export * from "./demo/mesh.ts";
export type { Probes } from "./catalog/health_checks.ts";
export type { Status } from "./catalog/records.ts";
export type { DevAgentOptions } from "./world.ts";
export * from "./demo/demo_apps.ts";
export * from "./servers/mod.ts";
