/**
 * The answers of Consul 1.22.7 to a proxy, as tests that an agent must pass: run against the embedded
 * agent and against a real one, so that the first cannot drift from the second. Names are unique per
 * run; one agent serves all of it.
 *
 * @module
 */

import { certificateContract, rotationContract } from "./certificates.ts";
import { chainContract, configContract } from "./chains.ts";
import { AgentClient, type AgentUnderTest } from "./client.ts";
import { connectionContract } from "./connections.ts";
import { errorContract } from "./errors.ts";
import { healthContract, queryContract } from "./health.ts";
import { httpEntryContract } from "./http_entries.ts";
import { intentionContract } from "./intentions.ts";
import { serviceContract } from "./services.ts";

/** For an agent without ACLs, datacenter `dc1`. */
export function agentContract(agent: AgentUnderTest): void {
  const client = new AgentClient(agent);
  errorContract(client);
  serviceContract(client);
  intentionContract(client);
  configContract(client);
  httpEntryContract(client);
  chainContract(client);
  healthContract(client);
  queryContract(client);
  certificateContract(client);
  connectionContract(client);
  rotationContract(client);
}
