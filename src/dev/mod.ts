/** A Consul-like agent in memory, and the demonstration mesh on it. @module */
export { DevAgent, startDevAgent } from "./agent.ts";
export * from "./demo/mesh.ts";
export * from "./demo/demo_apps.ts";
export type { World } from "./world.ts";
