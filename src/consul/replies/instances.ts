/** Instances of a service: by health, and of a prepared query. @module */

import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import type { Client } from "../http/client.ts";
import type { HealthRequest, QueryRequest } from "../model/consul.ts";
import type { Instance, QueryResult } from "../model/values.ts";
import type { PollAnswer, PollQuestion, PollRequest } from "../watch/blocking_query.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";
import { maintenanceIn } from "./maintenance.ts";
import { answerOf, isMissing, pollCall, readQuery } from "./questions.ts";
import { count, flag, list, map, object, port, readReply, text } from "./schema.ts";

const READ_TIMEOUT_MS = 30_000;
/** A failover datacenter that does not answer holds a prepared query for half a minute. */
const QUERY_TIMEOUT_MS = 60_000;

const InstanceJson = object({
  Node: object({ Node: text, Address: text, Datacenter: text, TaggedAddresses: map(v.string()) }),
  Service: object({
    Kind: text,
    ID: text,
    Service: text,
    Address: text,
    Port: port,
    Namespace: text,
    Partition: text,
    TaggedAddresses: map(object({ Address: text, Port: port })),
    Weights: v.nullish(object({ Passing: count, Warning: count })),
    Proxy: v.nullish(object({ DestinationServiceName: text })),
    Connect: v.nullish(object({ Native: flag })),
  }),
  Checks: list(object({ CheckID: text, Status: text, Output: text, Notes: text })),
});

type InstanceRow = v.InferOutput<typeof InstanceJson>;

const InstanceList = list(InstanceJson);
const ExecuteReply = object({ Service: text, Datacenter: text, Nodes: InstanceList });

export function readInstances(json: unknown, service: string): readonly Instance[] {
  const what = `instances of ${JSON.stringify(service)}`;
  return toInstances(readReply(InstanceList, json, what), service);
}

export function readQueryResult(json: unknown, name: string): QueryResult {
  const reply = readReply(ExecuteReply, json, `prepared query ${JSON.stringify(name)}`);
  return {
    service: reply.Service,
    datacenter: reply.Datacenter,
    instances: toInstances(reply.Nodes, reply.Service),
  };
}

/** The instances that can be dialled and have an identity, in a stable order; `service`: the requested one. */
function toInstances(
  rows: v.InferOutput<typeof InstanceList>,
  service: string,
): readonly Instance[] {
  return (rows ?? [])
    .map((row) => toInstance(row, service))
    .filter((instance) => instance.service !== "" && instance.host !== "" && instance.port !== 0)
    .sort((a, b) => compare(a.node, b.node) || compare(a.serviceId, b.serviceId));
}

const CHECKS_SHOWN = 5;

function toInstance(row: InstanceRow, requested: string): Instance {
  const { Node: node, Service: service } = row;
  const host = service.Address || node.Address;
  // Consul's own order: the service's addresses, tagged or not, come before the node's.
  const wan = service.TaggedAddresses?.["wan"];
  const nodeWan = service.Address ? "" : node.TaggedAddresses?.["wan"] ?? "";
  const checks = row.Checks ?? [];
  const [maintenance] = checks.flatMap((check) => maintenanceIn(check) ?? []);
  const failing = checks.filter(({ Status }) => Status !== "passing").map(({ CheckID }) => CheckID);
  return {
    node: node.Node,
    serviceId: service.ID,
    service: identityOf(service, requested),
    ...(service.Kind === "terminating-gateway" && { gateway: true }),
    namespace: service.Namespace || "default",
    partition: service.Partition || "default",
    datacenter: node.Datacenter,
    host,
    port: service.Port,
    wanHost: wan?.Address || nodeWan || host,
    wanPort: wan?.Address && wan.Port ? wan.Port : service.Port,
    health: worst(checks.map((check) => check.Status)),
    ...(failing.length > 0 && { checks: failing.slice(0, CHECKS_SHOWN) }),
    ...(maintenance !== undefined && { maintenance }),
    weights: { passing: service.Weights?.Passing ?? 1, warning: service.Weights?.Warning ?? 1 },
  };
}

/**
 * The service whose certificate the instance shows. A terminating gateway represents every service of its
 * config entry and shows the certificate of the one that the SNI names.
 */
function identityOf(service: InstanceRow["Service"], requested: string): string {
  if (service.Kind === "terminating-gateway") return requested;
  return service.Connect?.Native ? service.Service : service.Proxy?.DestinationServiceName ?? "";
}

/** An unknown status counts as critical. */
function worst(statuses: readonly string[]): Instance["health"] {
  if (statuses.every((status) => status === "passing")) return "passing";
  return statuses.every((status) => status === "passing" || status === "warning")
    ? "warning"
    : "critical";
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * A read with an index comes from the agent's streaming backend, which shows a missing permission as an
 * empty list; only a read without an index distinguishes the two. So a list that turns empty is read again
 * before it is believed.
 */
export function healthQuestion(
  client: Client,
  health: HealthRequest,
): PollQuestion<readonly Instance[]> {
  const { service, datacenter, filter } = health;

  async function read(
    request: PollRequest<readonly Instance[]>,
  ): Promise<PollAnswer<readonly Instance[]>> {
    const reply = await pollCall(client, request, {
      resource: "health",
      what: `read the instances of ${JSON.stringify(service)}`,
      needs: `service:read on ${JSON.stringify(service)} and its sidecars`,
      path: `/v1/health/connect/${encodeURIComponent(service)}`,
      datacenter,
      query: { filter },
    });
    const answer = answerOf(reply, request, (json) => readInstances(json, service));
    if (answer.value.length > 0 || !reply.filteredByAcls) return answer;
    throw new ProxyError(
      "agent_forbidden",
      `Cannot read the instances of ${JSON.stringify(service)}: the token may not see them; ` +
        `it needs service:read on ${JSON.stringify(service)} and on its sidecars, and node:read`,
    );
  }

  return {
    name: `health ${service}${datacenter ? ` dc=${datacenter}` : ""}` +
      `${filter ? ` filter=${filter}` : ""}`,
    resource: "health",
    isDropped: true,
    lacks: (after, before) =>
      isMissing(after, before, ({ node, serviceId }) => `${node} ${serviceId}`),
    async poll(request) {
      const answer = await read(request);
      // Beside servers the cursor asks the leader.
      const isConfirmed = request.stale || request.cursor === undefined ||
        request.last?.value.length === 0;
      if (answer.value.length > 0 || isConfirmed) return answer;
      const { signal, waitMs } = request;
      return read({ signal, waitMs, timeoutMs: READ_TIMEOUT_MS });
    },
  };
}

/** A prepared query cannot be waited on: it is executed at intervals, never per connection. */
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
        timeoutMs: QUERY_TIMEOUT_MS,
        signal,
        lastDigest: "",
      });
      const result = readQueryResult(reply.json, name);
      if (result.instances.length === 0 && reply.filteredByAcls) {
        throw new ProxyError(
          "agent_forbidden",
          `Cannot execute the prepared query ${JSON.stringify(name)}: the token may not see its ` +
            "instances; it needs service:read on the service and its sidecars, and node:read",
        );
      }
      return result;
    },
  };
}
