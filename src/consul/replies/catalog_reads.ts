/**
 * Single reads of the catalog: whether a service has an instance, and whether callers would choose this
 * proxy. What the agent knows may not have reached the catalog yet, and callers read the catalog.
 *
 * @module
 */

import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import type { Client } from "../http/client.ts";
import type { InstanceProtocol, InstanceRef, ServiceRef } from "../model/consul.ts";
import { maintenanceIn } from "./maintenance.ts";
import { readQuery } from "./questions.ts";
import { list, map, object, readReply, text } from "./schema.ts";

/** An application may write anything into the output of its check. */
const OUTPUT_LIMIT = 200;

const Entries = list(v.unknown());

const Rows = list(object({
  Node: object({ Node: text }),
  Service: object({ ID: text }),
  Checks: list(
    object({ CheckID: text, Name: text, Status: text, Output: text, Notes: text }),
  ),
}));

const AgentChecks = map(object({ Node: text, ServiceID: text }));

interface ReadTerms {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Whether a service has an instance, whatever its health; `undefined`: the token may not read it. */
export async function askInCatalog(
  client: Client,
  { service, namespace, partition, datacenter }: ServiceRef,
  terms: ReadTerms,
): Promise<boolean | undefined> {
  const { query, flags } = readQuery(client, { stale: true, datacenter });
  const reply = await client.call({
    resource: "catalog",
    what: `look for ${JSON.stringify(service)} in the catalog`,
    path: `/v1/catalog/service/${encodeURIComponent(service)}`,
    query: { ...query, ...tenancyOf({ namespace, partition }) },
    flags,
    ...terms,
  });
  const entries = readReply(Entries, reply.json, `entries of ${JSON.stringify(service)}`);
  if (entries.length > 0) return true;
  return reply.filteredByAcls ? undefined : false;
}

/** Community Edition takes neither parameter, so `default` is not sent. */
export function tenancyOf(
  { namespace, partition }: Pick<ServiceRef, "namespace" | "partition">,
): Readonly<Record<string, string>> {
  return {
    ...(namespace === "default" ? {} : { ns: namespace }),
    ...(partition === "default" ? {} : { partition }),
  };
}

/**
 * The name of the agent's node, which its checks carry. `/v1/agent/self` has it, too, but takes
 * agent:read, which a sidecar's token lacks. `undefined`: the proxy is registered without a check.
 */
export async function askNode(
  client: Client,
  proxyId: string,
  terms: ReadTerms,
): Promise<string | undefined> {
  const reply = await client.call({
    resource: "checks",
    what: `read the checks of ${JSON.stringify(proxyId)}`,
    path: "/v1/agent/checks",
    query: { filter: `ServiceID == ${JSON.stringify(proxyId)}` },
    ...terms,
  });
  const checks = Object.values(readReply(AgentChecks, reply.json, "the agent's checks"));
  return checks.find(({ ServiceID, Node }) => ServiceID === proxyId && Node !== "")?.Node;
}

/**
 * Why callers would pass the instance over, as sentences; empty: all its checks pass. Read from the
 * leader. Fails with `agent_forbidden` where the token may not see the instance.
 */
export async function askFailingChecks(
  client: Client,
  instance: InstanceRef,
  { node, ...terms }: ReadTerms & { readonly node: string | undefined },
): Promise<readonly string[]> {
  const { service, proxyId, datacenter } = instance;
  const { query, flags } = readQuery(client, { stale: false, datacenter });
  const needs = `service:read on ${JSON.stringify(service)} and its sidecars, and node:read`;
  const reply = await client.call({
    resource: "health",
    what: `read the checks of ${JSON.stringify(proxyId)} in the catalog`,
    needs,
    path: `/v1/health/connect/${encodeURIComponent(service)}`,
    query: { ...query, filter: `Service.ID == ${JSON.stringify(proxyId)}` },
    flags,
    ...terms,
  });
  // Other nodes may have an instance of that id. Where the own node is not known, all must pass.
  const own = readReply(Rows, reply.json, `instances of ${JSON.stringify(service)}`)
    .filter((row) =>
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
    const what = `${JSON.stringify(proxyId)} of ${JSON.stringify(service)}`;
    return [`the catalog has no instance ${what}${where}`];
  }
  return own.flatMap(({ Node, Checks }) =>
    Checks.filter(({ Status }) => Status !== "passing").map((check) => failing(check, Node.Node))
  );
}

const Callees = list(object({
  Service: object({
    ID: text,
    Proxy: v.nullish(object({ Config: map(v.unknown()) })),
  }),
}));

/**
 * The protocol that the sidecar of each instance speaks, by its registration and the central
 * configuration; `""`: neither names one, which is `tcp`.
 */
export async function askProtocols(
  client: Client,
  { service, namespace, partition, datacenter }: ServiceRef,
  terms: ReadTerms,
): Promise<readonly InstanceProtocol[]> {
  const { query, flags } = readQuery(client, { stale: true, datacenter });
  const reply = await client.call({
    resource: "health",
    what: `read the protocols of ${JSON.stringify(service)}`,
    needs: `service:read on ${JSON.stringify(service)} and its sidecars`,
    path: `/v1/health/connect/${encodeURIComponent(service)}`,
    query: { ...query, ...tenancyOf({ namespace, partition }) },
    flags: [...flags, "merge-central-config"],
    ...terms,
  });
  const rows = readReply(Callees, reply.json, `instances of ${JSON.stringify(service)}`);
  return rows.map(({ Service: { ID: id, Proxy: proxy } }) => {
    const { protocol } = proxy?.Config ?? {};
    return { id, protocol: typeof protocol === "string" ? protocol.toLowerCase() : "" };
  });
}

type Check = v.InferOutput<typeof Rows>[number]["Checks"][number];

function failing(check: Check, node: string): string {
  const { CheckID, Name, Status, Output } = check;
  const maintenance = maintenanceIn(check);
  if (maintenance !== undefined) {
    return `in maintenance mode on node ${JSON.stringify(node)}, ${maintenance}`;
  }
  const [line = ""] = Output.trim().split("\n");
  const output = line.length > OUTPUT_LIMIT ? `${line.slice(0, OUTPUT_LIMIT)}...` : line;
  return `check ${JSON.stringify(Name || CheckID)} (${CheckID}) on node ${JSON.stringify(node)} ` +
    `is ${Status || "unknown"}${output ? `: ${output}` : ""}`;
}
