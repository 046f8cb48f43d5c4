/**
 * Why a proxy is not among the services of its node: not registered, or not to be seen. One question
 * tells, since it takes no right on the node: what Envoy would be started with.
 *
 * @module
 */

import { ProxyError } from "../../../base/mod.ts";
import type { ConsulReply } from "../../http/client.ts";
import { shown } from "../../shown_ids.ts";
import { GET_BOOTSTRAP_PARAMS } from "../methods.ts";
import { type NodeCatalog, nodeName } from "./node_catalog.ts";

const TIMEOUT_MS = 5_000;

/**
 * `reply` is the list that lacks `proxyId`. `agent_not_found`, or `agent_forbidden` that names the right,
 * or `closed`.
 */
export async function absenceOf(
  catalog: NodeCatalog,
  proxyId: string,
  options: { readonly reply: ConsulReply; readonly signal?: AbortSignal },
): Promise<ProxyError> {
  const { client, node } = catalog;
  const { reply, signal } = options;
  const where = `on ${nodeName(node)}`;
  const none = `No proxy is registered as ${shown(proxyId)} ${where}`;
  // A list says whether it leaves something out, but to a known token only, and not what.
  if (client.hasToken && !reply.filteredByAcls) return new ProxyError("agent_not_found", none);
  const right = `node:read on ${JSON.stringify(node)}`;
  try {
    const { namespace, partition } = client.options;
    await catalog.servers.call(
      GET_BOOTSTRAP_PARAMS,
      { nodeName: node, proxyId, namespace, partition },
      { timeoutMs: TIMEOUT_MS, ...(signal ? { signal } : {}) },
    );
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    switch (error.code) {
      // It names the right on the proxy's own name.
      case "agent_forbidden":
      case "closed":
        return error;
      case "agent_not_found":
        return new ProxyError("agent_not_found", none);
      default:
        return new ProxyError("agent_not_found", `${none}, or the token may not see it (${right})`);
    }
  }
  return new ProxyError(
    "agent_forbidden",
    `Cannot read the registration of ${shown(proxyId)}: the token may not see ${nodeName(node)} ` +
      `(it takes ${right})`,
  );
}
