/** Writes of entries into Consul's catalog. Each may be repeated. @module */

import * as v from "valibot";
import { messageOf, ProxyError } from "../../../../base/mod.ts";
import type { ConsulCall } from "../../../http/carrier.ts";
import { readQuery } from "../../../replies/questions.ts";
import { object, readReply, text } from "../../../replies/schema.ts";
import { filterText, listServices, type NodeCatalog, nodeName } from "../node_catalog.ts";

/** A server without a leader looks for one for up to 12 s before it answers: it is not silent. */
export const WRITE_TIMEOUT_MS = 13_000;
/** An agent keeps the entries of a node that has this check. */
const AGENT_CHECK = "serfHealth";

interface Write extends Pick<ConsulCall, "what" | "path" | "needs"> {
  readonly body: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

const NodeChecks = v.array(object({ CheckID: text }));

/**
 * Registers the node unless it is there; `address` is where others reach it. Fails with `usage` where an
 * agent keeps the node, or where the node has to be registered and no address is known.
 */
export async function ensureNode(
  catalog: NodeCatalog,
  options: { readonly address: string; readonly signal: AbortSignal },
): Promise<void> {
  const { client, node } = catalog;
  const { address, signal } = options;
  const checks = await client.call({
    resource: "register",
    what: `look at ${nodeName(node)}`,
    path: `/v1/health/node/${encodeURIComponent(node)}`,
    query: {
      ...readQuery(client, { stale: false }).query,
      filter: `CheckID == ${filterText(AGENT_CHECK)}`,
    },
    timeoutMs: WRITE_TIMEOUT_MS,
    signal,
  });
  if (readReply(NodeChecks, checks.json, `the checks of ${nodeName(node)}`).length > 0) {
    throw new ProxyError(
      "usage",
      `Cannot register on ${nodeName(node)}: a Consul agent keeps its entries and would remove ` +
        `ours; give -node the name of a node that no agent has`,
    );
  }
  // No service has that id: the reply is about the node alone.
  const { isThere, reply } = await listServices(catalog, {
    what: `look for ${nodeName(node)}`,
    filter: 'ID == ""',
    signal,
  });
  if (isThere || reply.filteredByAcls) return;
  if (address === "") {
    throw new ProxyError(
      "usage",
      `Cannot register: there is no ${nodeName(node)}, and nothing says its address; give ` +
        `-node-address, or one address in -listen`,
    );
  }
  try {
    await register(catalog, {
      body: { Address: address, NodeMeta: { "synthetic-node": "true" } },
      what: `register ${nodeName(node)}`,
      signal,
    });
  } catch (error) {
    if (!(error instanceof ProxyError) || error.code !== "agent_forbidden") throw error;
    const hint = "; it may also be registered once by somebody who may, and then be used by all";
    throw new ProxyError(error.code, messageOf(error) + hint, { cause: error });
  }
}

/** `body` without the node: fields of an existing node are ignored. */
export async function register(
  catalog: NodeCatalog,
  { body, ...call }: Omit<Write, "path">,
): Promise<void> {
  const path = "/v1/catalog/register";
  await put(catalog, { ...call, path, body: { SkipNodeUpdate: true, ...body } });
}

/** A service with its checks, or one check; not a failure where it is not there. */
export async function deregister(
  catalog: NodeCatalog,
  { what, signal }: {
    readonly what: { readonly ServiceID: string } | { readonly CheckID: string };
    readonly signal: AbortSignal;
  },
): Promise<void> {
  try {
    await put(catalog, {
      what: `deregister ${JSON.stringify(Object.values(what)[0])}`,
      path: "/v1/catalog/deregister",
      body: what,
      signal,
    });
  } catch (error) {
    // For an entry that is not there Consul cannot check the right by name; with node:write it is no failure.
    if (!(error instanceof ProxyError && /Unknown (service|check) ID/.test(error.message))) {
      throw error;
    }
  }
}

async function put({ client, node }: NodeCatalog, { body, ...call }: Write): Promise<void> {
  await client.call({
    ...call,
    resource: "register",
    method: "PUT",
    query: readQuery(client, { stale: false }).query,
    body: { Node: node, ...body },
    timeoutMs: WRITE_TIMEOUT_MS,
  });
}
