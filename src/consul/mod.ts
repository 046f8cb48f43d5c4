/** The only speaker to the agent. @module */
export * from "./agent.ts";
export * from "./types.ts";
