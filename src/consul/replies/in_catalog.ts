/**
 * Whether a service has an instance in the catalog, whatever its health.
 *
 * @module
 */

import * as v from "valibot";
import type { Client } from "../http/client.ts";
import { readQuery } from "../http/query.ts";
import type { ServiceRef } from "../agent.ts";
import { readReply } from "./schema.ts";

const Entries = v.nullable(v.array(v.unknown()));

/** `undefined`: the token may not read it. */
export async function askInCatalog(
  client: Client,
  { service, namespace, partition, datacenter }: ServiceRef,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<boolean | undefined> {
  const read = readQuery(client, { stale: true, datacenter });
  const reply = await client.call({
    resource: "catalog",
    what: `look for ${JSON.stringify(service)} in the catalog`,
    path: `/v1/catalog/service/${encodeURIComponent(service)}`,
    ...{ ...read, query: { ...read.query, ...tenancyOf({ namespace, partition }) } },
    ...{ timeoutMs, signal },
  });
  const entries = readReply(Entries, reply.json, `entries of ${JSON.stringify(service)}`) ?? [];
  if (entries.length > 0) return true;
  return reply.filteredByAcls ? undefined : false;
}

/** Community Edition takes neither, so what is `default` is not said. */
export function tenancyOf(
  { namespace, partition }: Pick<ServiceRef, "namespace" | "partition">,
): Readonly<Record<string, string>> {
  return {
    ...(namespace === "default" ? {} : { ns: namespace }),
    ...(partition === "default" ? {} : { partition }),
  };
}
