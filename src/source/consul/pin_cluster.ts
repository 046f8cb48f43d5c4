/**
 * Binds requests to Consul to the cluster whose certificate is in force, or was when the state was
 * stored: a changed trust domain is the sure sign of another cluster.
 * @module
 */

import type { Consul } from "../../consul/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { CredentialsPart } from "../../snapshot/mod.ts";
import type { SnapshotStore } from "../state/store.ts";

interface PinOptions {
  readonly agent: Pick<Consul, "pinCluster">;
  readonly store?: Pick<SnapshotStore, "fileOf">;
}

export function pinCluster(
  { uri }: Pick<CredentialsPart, "uri">,
  { agent, store }: PinOptions,
  proxyId: string,
): void {
  const parsed = parseServiceId(uri);
  if (parsed.kind !== "service") return;
  const stateFile = store?.fileOf?.(proxyId);
  agent.pinCluster?.({
    trustDomain: parsed.id.trustDomain,
    ...(stateFile === undefined ? {} : { stateFile }),
  });
}

/** Called before the first request: the first server that answers might belong to another cluster. */
export async function pinStoredCluster(
  proxyId: string,
  options: PinOptions & { readonly store: SnapshotStore },
): Promise<void> {
  const stored = await options.store.load(proxyId);
  const credentials = stored?.snapshot.credentials;
  if (credentials) pinCluster(credentials, options, proxyId);
}
