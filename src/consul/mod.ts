/** The only speaker to the agent. @module */
export * from "./agent.ts";
export { DATAPLANE_FLAGS } from "./flag_names.ts";
export { type AgentDeps, createAgent } from "./create_agent.ts";
export {
  agentAddressText,
  type AgentFlags,
  type AgentOptions,
  resolveAgentOptions,
} from "./http/options.ts";
export * from "./entry_types.ts";
export * from "./types.ts";
export { openServers } from "./open_servers.ts";
export { resolveServersOptions, type ServersFlags } from "./servers/options.ts";
export type { ServersOptions } from "./servers/types.ts";
export {
  CONFIG_KEYS,
  type ConfigKey,
  KEY_PLACES,
  type KeyPlace,
  refusalReason,
} from "./replies/config_keys.ts";
export { readJwtProvider } from "./replies/jwt_provider.ts";
export { readPermission } from "./replies/permissions.ts";
export { warningsOf } from "./replies/registration.ts";
