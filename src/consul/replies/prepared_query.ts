/**
 * The instances that a prepared query names. It cannot be waited on, so it is asked again and again,
 * never per connection: a failover datacenter that does not answer holds the call for half a minute.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { QueryRequest } from "../agent.ts";
import type { Client } from "../http/client.ts";
import { InstanceList, toInstances } from "./instance.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";
import { readQuery } from "../http/query.ts";
import { object, readReply, text } from "./schema.ts";
import type { QueryResult } from "../types.ts";

const DEADLINE_MS = 60_000;

const ExecuteReply = object({ Service: text, Datacenter: text, Nodes: InstanceList });

export function readQueryResult(json: unknown, name: string): QueryResult {
  const reply = readReply(ExecuteReply, json, `prepared query ${JSON.stringify(name)}`);
  return {
    service: reply.Service,
    datacenter: reply.Datacenter,
    instances: toInstances(reply.Nodes, reply.Service),
  };
}

export function preparedQueryQuestion(
  client: Client,
  request: QueryRequest,
): RepeatQuestion<QueryResult> {
  const { name, datacenter } = request;
  return {
    name: `query ${name}${datacenter ? ` dc=${datacenter}` : ""}`,
    resource: "query",
    kind: "query",
    intervalMs: request.intervalMs,
    async ask(signal) {
      const read = readQuery(client, { stale: true, datacenter });
      const reply = await client.call({
        resource: "query",
        what: `execute the prepared query ${JSON.stringify(name)}`,
        path: `/v1/query/${encodeURIComponent(name)}/execute`,
        query: { ...read.query, connect: "true" },
        flags: read.flags,
        timeoutMs: DEADLINE_MS,
        signal,
        lastDigest: "",
      });
      const result = readQueryResult(reply.json, name);
      if (result.instances.length === 0 && reply.filteredByAcls) {
        throw new ProxyError(
          "agent_forbidden",
          `Cannot execute the prepared query ${JSON.stringify(name)}: the token may not see its ` +
            `instances; it needs service:read on the service and its sidecars, and node:read`,
        );
      }
      return result;
    },
  };
}
