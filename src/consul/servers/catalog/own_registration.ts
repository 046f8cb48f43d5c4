/**
 * The proxy's own registration, merged by a server with the central configuration: the same value that an
 * agent's reply gives. It is waited on by index, which moves with every change on the node, so it is
 * compared by content.
 * @module
 */

import type { Registration } from "../../model/values.ts";
import { cursorOf, isMissing, pollCall } from "../../replies/questions.ts";
import { readRegistration } from "../../replies/registration.ts";
import type { PollQuestion, PollRequest } from "../../watch/blocking_query.ts";
import {
  absenceOf,
  filterText,
  type NodeCatalog,
  nodeServicesPath,
  readNodeServices,
} from "./node_catalog.ts";

const COMING_MS = 2_000;
/** Writes of one registration: the node, the application, each with checks, and the proxy. */
const COMING_WRITES = 5;

/**
 * The registration of `proxyId` in a `node-services` reply with `merge-central-config`; undefined: there is
 * none. Fails with `agent_reply_invalid`, `usage` or `unsupported` (no such proxy can be run).
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
    isCritical: true,
    lacks: (after, before) => isMissing(after.upstreams, before.upstreams, ({ id }) => id),
    async poll(request) {
      const ask = (terms: PollRequest<Registration>) =>
        pollCall(client, terms, {
          resource: "registration",
          what: `read the registration of ${JSON.stringify(proxyId)}`,
          path: nodeServicesPath(node),
          query: { filter: `ID == ${filterText(proxyId)}` },
          flags: ["merge-central-config"],
        });
      let reply = await ask(request);
      let value = readOwnRegistration(reply.json, { node, proxyId });
      // The proxy is often started and registered at about the same time, after other entries of the node.
      for (let woken = 0; woken < COMING_WRITES && !value && !request.last; woken++) {
        if (reply.filteredByAcls) break;
        const { index } = reply;
        reply = await ask({ ...request, ...cursorOf(reply), waitMs: COMING_MS });
        value = readOwnRegistration(reply.json, { node, proxyId });
        if (reply.index === index) break;
      }
      // Like an agent's 404: the last value stays true.
      if (!value) throw await absenceOf(catalog, proxyId, { reply, signal: request.signal });
      return { value, ...cursorOf(reply) };
    },
  };
}
