/** Consul servers in memory. @module */
export { type ClusterTiming, CONSUL_TIMING, type ServerState } from "./cluster.ts";
export type { DevServer } from "./dev_server.ts";
export { DevServers, type DevServersOptions, startDevServers } from "./dev_servers.ts";
