/**
 * What keeps the source from hearing of changes, one sentence each: who is away, or what may not be read,
 * since when and why. For `/ready`, where an operator looks first.
 *
 * @module
 */

import { isOutage } from "./consul/agent_outage.ts";
import type { Failing, SourceStatus } from "./source.ts";

/** An outage is one of them; more than these are failures of single watches. */
const TOLD = 20;

export function troublesOf({ failing, servers }: SourceStatus): readonly string[] {
  const told = failing.slice(0, TOLD).map((one) => sentenceOf(one, servers !== undefined));
  const more = failing.length - told.length;
  if (more > 0) told.push(`and ${more} more, see /config_dump`);
  // A search that goes on has failed nobody's question yet.
  if (servers && servers.server === "" && servers.lastFailure && !failing.some(isOutage)) {
    told.unshift(`no Consul server is in use: ${servers.lastFailure}`);
  }
  return told;
}

function sentenceOf({ watch, code, message, sinceMs }: Failing, isServers: boolean): string {
  const since = new Date(sinceMs).toISOString();
  const who = isServers ? "Consul" : "the agent";
  switch (code) {
    case "agent_unreachable":
      return `${who} not reached since ${since}: ${message}`;
    case "cluster_changed":
      return `another cluster answers since ${since}: ${message}`;
    default:
      return `${watch} not read since ${since}: ${message}`;
  }
}
