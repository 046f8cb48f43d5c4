/** The only room that speaks to Consul: through an agent, or through its servers. @module */
import type { ConsulDeps } from "./create_agent.ts";
import type { Consul } from "./model/consul.ts";
import type { ServersOptions } from "./servers/types.ts";

export { type ConsulDeps, createAgent } from "./create_agent.ts";
export { readTlsFiles } from "./http/files.ts";
export { agentCredentials } from "./http/tls_credentials.ts";
export {
  agentAddressText,
  type AgentFlags,
  type AgentOptions,
  resolveAgentOptions,
} from "./http/options.ts";
export * from "./model/config_entries.ts";
export * from "./model/consul.ts";
export { DATAPLANE_FLAGS, PROXY_FLAGS } from "./model/flag_names.ts";
export * from "./model/values.ts";
export { CONFIG_KEYS, type ConfigKey, KEY_PLACES, type KeyPlace } from "./replies/config_keys.ts";
export { readPermission } from "./replies/intentions.ts";
export { readJwtProvider } from "./replies/jwt_provider.ts";
export { refusalReason } from "./replies/named_keys.ts";
export { warningsOf } from "./replies/registration.ts";
export { resolveServersOptions, type ServersFlags } from "./servers/options.ts";
export type { ServersOptions } from "./servers/types.ts";

/**
 * Their code is loaded on demand: a proxy beside an agent spends no memory on it. Rejects with
 * `config_invalid` where files cannot be used.
 */
export async function openServers(
  options: ServersOptions,
  deps: ConsulDeps,
): Promise<Required<Consul>> {
  const { createServers } = await import("./create_servers.ts");
  return createServers(options, deps);
}
