/**
 * A SPIRE agent beside stories: the peer with its habits on a socket of its own, and the identities that
 * trust domains have it give to a workload.
 *
 * @module
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Authority } from "../certs/authority.ts";
import { createAuthority } from "../certs/certificates.ts";
import { type PemPair, type SdsPeer, startSdsPeer, type WorkloadState } from "./sds_peer.ts";

export type AgentSvid = PemPair & { readonly id: string };

/** A trust domain with its CA. */
export interface TrustDomain {
  readonly ca: Authority;
  /** `spiffe://td`. */
  readonly name: string;
  svid(name: string): AgentSvid;
}

export function trustDomainOf(trustDomain: string): TrustDomain {
  const ca = createAuthority({ trustDomain });
  const id = (name: string) => `spiffe://${trustDomain}/${name}`;
  return {
    ca,
    name: `spiffe://${trustDomain}`,
    svid: (name: string) => ({ id: id(name), ...ca.issueLeaf({ service: name, uri: id(name) }) }),
  };
}

/** These identities of the first domain, and the bundles of all. */
export function workloadState(
  svids: readonly (AgentSvid & { readonly hint?: string })[],
  own: TrustDomain,
  ...others: readonly TrustDomain[]
): WorkloadState {
  return {
    trustDomain: own.name,
    svids,
    bundles: Object.fromEntries([own, ...others].map(({ name, ca }) => [name, ca.rootPem])),
  };
}

export async function withSpireAgent<T>(
  use: (agent: SdsPeer, socket: string) => Promise<T>,
): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "postern-spire-"));
  try {
    const socket = join(directory, "api.sock");
    await using agent = await startSdsPeer({ listen: `unix:${socket}`, habits: "spire" });
    return await use(agent, socket);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
