/**
 * What the catalog has of the entries that we keep: waited for by their checks, which go with their
 * service; a service that somebody changed otherwise is noticed when the wait ends, within a minute.
 *
 * @module
 */

import { blockingQuery, cursorOf, readQuery } from "../../../http/query.ts";
import type { PollAnswer, PollQuestion, PollRequest } from "../../../watch/blocking_query.ts";
import { filterText } from "../expression.ts";
import { type NodeCatalog, nodeName, nodeServicesPath, readNodeServices } from "../node_catalog.ts";
import { type KeptEntries, readKept } from "./entries.ts";

const TIMEOUT_MS = 10_000;

export function ownEntriesQuestion(
  catalog: Pick<NodeCatalog, "client" | "node">,
  ids: readonly string[],
): PollQuestion<KeptEntries> {
  return {
    name: `own entries ${ids.join(" ")}`,
    resource: "own_entries",
    critical: false,
    dropped: false,
    isRare: true,
    cursor: "index",
    poll: (request) => readEntries(catalog, ids, request),
  };
}

/** As the leader knows them now. */
export async function readOwnEntries(
  catalog: Pick<NodeCatalog, "client" | "node">,
  ids: readonly string[],
  options: { readonly signal: AbortSignal },
): Promise<KeptEntries> {
  const request = { waitMs: 0, timeoutMs: TIMEOUT_MS, signal: options.signal };
  return (await readEntries(catalog, ids, request)).value;
}

async function readEntries(
  { client, node }: Pick<NodeCatalog, "client" | "node">,
  ids: readonly string[],
  request: PollRequest<KeptEntries>,
): Promise<PollAnswer<KeptEntries>> {
  const { cursor: _waited, ...now } = request;
  const read = readQuery(client, { stale: false });
  const only = (field: string) => ({
    ...read,
    query: { ...read.query, filter: ids.map((id) => `${field} == ${filterText(id)}`).join(" or ") },
  });
  const checks = await client.call({
    resource: "own_entries",
    what: `read the checks on ${nodeName(node)}`,
    path: `/v1/health/node/${encodeURIComponent(node)}`,
    ...blockingQuery(request, only("ServiceID")),
  });
  const services = await client.call({
    resource: "own_entries",
    what: `read the services on ${nodeName(node)}`,
    path: nodeServicesPath(node),
    ...blockingQuery(now, only("ID")),
  });
  const value = readKept(readNodeServices(services.json, node).services, checks.json);
  return { value, ...cursorOf(checks) };
}
