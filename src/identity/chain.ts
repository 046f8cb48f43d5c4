/** A presented chain within its bounds, its identity in the mesh, and the verdict on it. @module */

import { messageOf, ProxyError } from "../base/mod.ts";
import { type Certificate, parseCertificate } from "./certificate.ts";
import type { Usage } from "./oids.ts";
import { formatServiceId, parseServiceId, type ServiceId } from "./spiffe.ts";

/** Certificates besides the leaf that are used; Consul sends at most 2. */
export const PRESENTED_LIMIT = 10;
export const PRESENTED_LIMIT_BYTES = 64 * 1024;

/** The TLS library has proven that the peer holds the leaf's key. */
export interface PeerToJudge {
  /** DER. */
  readonly leaf: Uint8Array;
  /** DER of the other certificates, in any order; unrelated ones and the leaf itself are allowed. */
  readonly presented: readonly Uint8Array[];
  /** Wall clock, at the handshake if that was earlier. */
  readonly nowMs: number;
  /**
   * The present wall clock, if {@link nowMs} was earlier: a CA certificate or a revocation list that was
   * made since then is valid. A certificate that has expired since the handshake is valid, too.
   */
  readonly presentMs?: number;
  readonly usage: Usage;
}

export interface TrustedPeer {
  readonly kind: "trusted";
  /** The id of a Consul service; `undefined`: it is none, or nothing vouches for the claim. */
  readonly id: ServiceId | undefined;
  /**
   * The one URI name; a SPIFFE id is in canonical spelling (a service's in Consul's), so that it can be
   * compared as text. "": there is none, or several. Only a claim if the peer is not `verified`.
   */
  readonly uri: string;
  /** The identities by each of several URI names. None of them allows anything. */
  readonly claims?: readonly Pick<TrustedPeer, "id" | "uri">[];
  /** For people: the URI, else the first DNS name, else `certificate <serial>`. */
  readonly name: string;
  /** False: the chain failed, and the rules accept such peers (`acceptUntrusted`). */
  readonly verified: boolean;
  /** As Consul writes it. */
  readonly serial: string;
  /** The validity of all that the verdict rests on; both ends belong to it. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** Consul's id of the root that vouches; "": there is none. */
  readonly rootId: string;
}

export interface UntrustedPeer {
  readonly kind: "untrusted";
  /** The fault is in the leaf, or in its path to a root. */
  readonly code: "identity_invalid" | "chain_untrusted";
  readonly reason: string;
}

export type ChainVerdict = TrustedPeer | UntrustedPeer;

type LeafIdentity =
  | {
    readonly kind: "service";
    readonly peer: { readonly id: ServiceId; readonly uri: string };
  }
  | { readonly kind: "refused"; readonly reason: string };

/** The one service id of a leaf. `trustDomains` are lower case. */
export function identityOf(leaf: Certificate, trustDomains: readonly string[]): LeafIdentity {
  const refuse = (reason: string) => ({ kind: "refused", reason } as const);
  const [uri, second] = leaf.sanUris;
  if (uri === undefined) return refuse("its certificate has no URI alternative name");
  if (second !== undefined) return refuse("its certificate has two or more URI names");
  const parsed = parseServiceId(uri);
  if (parsed.kind === "refused") return refuse(`its SPIFFE id ${parsed.reason}`);
  const { id } = parsed;
  if (!trustDomains.includes(id.trustDomain)) {
    return refuse(`its trust domain is ${id.trustDomain}, which is not ours`);
  }
  return { kind: "service", peer: { id, uri: formatServiceId(id) } };
}

export function refuseLeaf(reason: string): UntrustedPeer {
  return { kind: "untrusted", code: "identity_invalid", reason };
}

export function refuseChain(reason: string): UntrustedPeer {
  return { kind: "untrusted", code: "chain_untrusted", reason };
}

export function presentedBytes(
  { leaf, presented }: Pick<PeerToJudge, "leaf" | "presented">,
): number {
  let bytes = leaf.length;
  for (const der of presented) bytes += der.length;
  return bytes;
}

export function readLeaf(peer: PeerToJudge): Certificate | UntrustedPeer {
  if (presentedBytes(peer) > PRESENTED_LIMIT_BYTES) {
    return refuseChain(`it presented more than ${PRESENTED_LIMIT_BYTES} bytes of certificates`);
  }
  const leaf = parseOrRefuse(peer.leaf);
  return leaf instanceof ProxyError ? refuseLeaf(leaf.message) : leaf;
}

function parseOrRefuse(der: Uint8Array): Certificate | ProxyError {
  try {
    return parseCertificate(der);
  } catch (error) {
    if (error instanceof ProxyError) return error;
    // A defect here must neither accept a peer nor end the process.
    return new ProxyError("identity_invalid", `Cannot read certificate: ${messageOf(error)}`);
  }
}

/** The certificates that are used. An unreadable one is skipped; the other ones may reach a root. */
export function parsePresented(presented: readonly Uint8Array[]): readonly Certificate[] {
  return presented.slice(0, PRESENTED_LIMIT).map(parseOrRefuse)
    .flatMap((parsed) => parsed instanceof ProxyError ? [] : [parsed]);
}

/** Ends a reason if more certificates were presented than are used. */
export function moreThanCounts(presented: readonly Uint8Array[]): string {
  return presented.length > PRESENTED_LIMIT
    ? ` (only the first ${PRESENTED_LIMIT} of ${presented.length} certificates count)`
    : "";
}
