/**
 * Who can be dialled for a service. A read with an index comes from the agent's streaming backend,
 * which shows a missing permission as an empty list; only a read without one tells the two apart, so
 * a list that turns empty is asked for again before it is believed.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { HealthRequest } from "../agent.ts";
import type { PollAnswer, PollQuestion, PollRequest } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { InstanceList, toInstances } from "./instance.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { isMissing } from "./missing.ts";
import { readReply } from "./schema.ts";
import type { Instance } from "../types.ts";

type Instances = readonly Instance[];

export function readInstances(json: unknown, service: string): Instances {
  return toInstances(
    readReply(InstanceList, json, `instances of ${JSON.stringify(service)}`),
    service,
  );
}

export function healthQuestion(client: Client, health: HealthRequest): PollQuestion<Instances> {
  const { service, datacenter, filter } = health;

  async function read(request: PollRequest<Instances>): Promise<PollAnswer<Instances>> {
    const base = readQuery(client, { stale: true, datacenter });
    const reply = await client.call({
      resource: "health",
      what: `read the instances of ${JSON.stringify(service)}`,
      needs: `service:read on ${JSON.stringify(service)} and its sidecars`,
      path: `/v1/health/connect/${encodeURIComponent(service)}`,
      ...blockingQuery(request, { ...base, query: { ...base.query, filter } }),
    });
    const answer = answerOf(reply, request, (json) => readInstances(json, service));
    if (answer.value.length === 0 && reply.filteredByAcls) throw filtered(service);
    return answer;
  }

  return {
    name: `health ${service}${datacenter ? ` dc=${datacenter}` : ""}` +
      `${filter ? ` filter=${filter}` : ""}`,
    resource: "health",
    critical: false,
    dropped: true,
    cursor: "index",
    lacks: (after, before) =>
      isMissing(after, before, ({ node, serviceId }) => `${node} ${serviceId}`),
    async poll(request) {
      const answer = await read(request);
      // Beside servers, whoever asks does that.
      const confirmed = request.stale || request.cursor === undefined ||
        request.last?.value.length === 0;
      if (answer.value.length > 0 || confirmed) return answer;
      const { signal, waitMs } = request;
      return read({ signal, waitMs, timeoutMs: 30_000 });
    },
  };
}

function filtered(service: string): ProxyError {
  return new ProxyError(
    "agent_forbidden",
    `Cannot read the instances of ${JSON.stringify(service)}: the token may not see them; ` +
      `it needs service:read on ${JSON.stringify(service)} and on its sidecars, and node:read`,
  );
}
