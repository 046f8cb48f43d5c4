/**
 * The proxy's own registration as a server merged it with the central configuration: the same value that
 * an agent's reply makes. Waited on by index; it wakes for whatever happens on the node, hence compared
 * by content.
 *
 * @module
 */

import { blockingQuery, cursorOf, readQuery } from "../../http/query.ts";
import { isMissing } from "../../replies/missing.ts";
import { readRegistration } from "../../replies/registration.ts";
import type { Registration } from "../../types.ts";
import type { PollQuestion, PollRequest } from "../../watch/blocking_query.ts";
import { absenceOf } from "./absence.ts";
import { filterText } from "./expression.ts";
import { type NodeCatalog, nodeServicesPath, readNodeServices } from "./node_catalog.ts";

const COMING_MS = 2_000;
/** The node, the application, each with checks, and the proxy. */
const COMING_WRITES = 5;

/**
 * The part of a `node-services` reply, asked with `merge-central-config`, that is about `proxyId`;
 * undefined: it is not there. Fails with `agent_reply_invalid`, `usage` or `unsupported` (no such proxy
 * can be run).
 */
export function readOwnRegistration(
  json: unknown,
  options: { readonly node: string; readonly proxyId: string },
): Registration | undefined {
  const { node, proxyId } = options;
  const own = readNodeServices(json, node).services.find(({ ID }) => ID === proxyId);
  return own && readRegistration(own, proxyId);
}

export function ownRegistrationQuestion(
  catalog: NodeCatalog,
  proxyId: string,
): PollQuestion<Registration> {
  const { client, node } = catalog;
  return {
    name: `registration ${proxyId}`,
    resource: "registration",
    critical: true,
    dropped: false,
    cursor: "index",
    lacks: (after, before) => isMissing(after.upstreams, before.upstreams, ({ id }) => id),
    async poll(request) {
      const read = readQuery(client, { stale: true });
      const ask = (asked: PollRequest<Registration>) =>
        client.call({
          resource: "registration",
          what: `read the registration of ${JSON.stringify(proxyId)}`,
          path: nodeServicesPath(node),
          ...blockingQuery(asked, {
            query: { ...read.query, filter: `ID == ${filterText(proxyId)}` },
            flags: [...read.flags, "merge-central-config"],
          }),
        });
      let reply = await ask(request);
      let value = readOwnRegistration(reply.json, { node, proxyId });
      // Whoever starts us registers us at about the same time, after other things of the node.
      for (let woken = 0; woken < COMING_WRITES && !value && !request.last; woken++) {
        if (reply.filteredByAcls) break;
        const { index } = reply;
        reply = await ask({ ...request, ...cursorOf(reply), waitMs: COMING_MS });
        value = readOwnRegistration(reply.json, { node, proxyId });
        if (reply.index === index) break;
      }
      // Like an agent's 404: what was delivered last stays true.
      if (!value) throw await absenceOf(catalog, proxyId, { reply, signal: request.signal });
      return { value, ...cursorOf(reply) };
    },
  };
}
