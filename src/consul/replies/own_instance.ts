/**
 * Whether callers would choose this proxy: its own entry in the catalog and every check on it, read once
 * from the leader. What the agent knows may not have reached the catalog yet, and callers read the
 * catalog.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { InstanceRef } from "../agent.ts";
import type { Client } from "../http/client.ts";
import { readQuery } from "../http/query.ts";
import { list, map, object, readReply, text } from "./schema.ts";

/** An application may write anything into the output of its check. */
const OUTPUT_LIMIT = 200;

const Rows = list(object({
  Node: object({ Node: text }),
  Service: object({ ID: text }),
  Checks: list(object({ CheckID: text, Name: text, Status: text, Output: text })),
}));

const AgentChecks = map(object({ Node: text, ServiceID: text }));

export interface ReadOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * The name of the agent's node, which its checks carry. `/v1/agent/self` says it, too, but takes
 * agent:read, which a sidecar's token lacks. `undefined`: the proxy is registered without a check.
 */
export async function askNode(
  client: Client,
  proxyId: string,
  terms: ReadOptions,
): Promise<string | undefined> {
  const reply = await client.call({
    resource: "checks",
    what: `read the checks of ${JSON.stringify(proxyId)}`,
    path: "/v1/agent/checks",
    query: { filter: `ServiceID == ${JSON.stringify(proxyId)}` },
    ...terms,
  });
  const checks = Object.values(readReply(AgentChecks, reply.json, "the agent's checks") ?? {});
  return checks.find(({ ServiceID, Node }) => ServiceID === proxyId && Node !== "")?.Node;
}

/**
 * Why callers would pass the instance over, as sentences; empty: all its checks pass. Fails with
 * `agent_forbidden` where the token may not see it.
 */
export async function askFailingChecks(
  client: Client,
  instance: InstanceRef,
  { node, ...terms }: ReadOptions & { readonly node: string | undefined },
): Promise<readonly string[]> {
  const { service, proxyId, datacenter } = instance;
  const read = readQuery(client, { stale: false, datacenter });
  const needs = `service:read on ${JSON.stringify(service)} and its sidecars, and node:read`;
  const reply = await client.call({
    resource: "health",
    what: `read the checks of ${JSON.stringify(proxyId)} in the catalog`,
    needs,
    path: `/v1/health/connect/${encodeURIComponent(service)}`,
    ...{ ...read, query: { ...read.query, filter: `Service.ID == ${JSON.stringify(proxyId)}` } },
    ...terms,
  });
  const rows = readReply(Rows, reply.json, `instances of ${JSON.stringify(service)}`) ?? [];
  // Other nodes may have an instance of that id. Where the own node is not known, all must pass.
  const own = rows.filter((row) =>
    row.Service.ID === proxyId &&
    (node === undefined || row.Node.Node.toLowerCase() === node.toLowerCase())
  );
  if (own.length === 0 && reply.filteredByAcls) {
    throw new ProxyError(
      "agent_forbidden",
      `Cannot see ${JSON.stringify(proxyId)} in the catalog: the token takes ${needs}` +
        (node === undefined ? "" : ` on ${JSON.stringify(node)}`),
    );
  }
  if (own.length === 0) {
    const where = node === undefined ? "" : ` on node ${JSON.stringify(node)}`;
    return [
      `the catalog has no instance ${JSON.stringify(proxyId)} of ${
        JSON.stringify(service)
      }${where}`,
    ];
  }
  return own.flatMap(({ Node, Checks }) =>
    (Checks ?? []).filter(({ Status }) => Status !== "passing").map(
      ({ CheckID, Name, Status, Output }) => {
        const [line = ""] = Output.trim().split("\n");
        const output = line.length > OUTPUT_LIMIT ? `${line.slice(0, OUTPUT_LIMIT)}...` : line;
        return `check ${JSON.stringify(Name || CheckID)} (${CheckID}) on node ` +
          `${JSON.stringify(Node.Node)} is ${Status || "unknown"}${output ? `: ${output}` : ""}`;
      },
    )
  );
}
