/**
 * A Consul-like agent in memory: catalog, CA, intentions, chains, blocking queries, ACL.
 *
 * @module
 */
export type { AclOptions, Token, TokenOptions } from "./acl.ts";
export * from "./agent.ts";
export type { Fault } from "./faults.ts";
export * from "./mesh.ts";
export type { Probes } from "./health_checks.ts";
export type { Status } from "./records.ts";
export type { DevAgentOptions } from "./world.ts";
export * from "./demo_apps.ts";
