/**
 * Servers in place of an agent. Their code is loaded when it is asked for: a proxy beside an agent carries
 * no memory of it.
 *
 * @module
 */

import type { Agent } from "./agent.ts";
import type { AgentDeps } from "./create_agent.ts";
import type { ServersOptions } from "./servers/types.ts";

/** Opens nothing yet; rejects with `config_invalid` where files cannot be used. */
export async function openServers(
  options: ServersOptions,
  deps: AgentDeps,
): Promise<Required<Agent>> {
  const { createServers } = await import("./servers/create_servers.ts");
  return createServers(options, deps);
}
