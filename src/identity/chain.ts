/**
 * Our own verdict on a presented chain: who is the peer, and does a root in force vouch for it? The TLS
 * library has proven that the peer holds the leaf's key; everything else is decided here.
 *
 * The leaf must say what it may be used for: Consul always sets the extended key usage, so a leaf
 * without one is refused, and so is one that says "any".
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";
import { allowsKeyUsage, type Certificate, fingerprintOf } from "./certificate.ts";
import { OID } from "./oids.ts";
import { findPath, type Usage, validityFault } from "./path.ts";
import {
  moreThanCounts,
  parseOrRefuse,
  parsePresented,
  type Presented,
  PRESENTED_LIMIT_BYTES,
  presentedBytes,
} from "./presented.ts";
import { keyFault } from "./signature.ts";
import { formatServiceId, parseServiceId, type ServiceId } from "./spiffe.ts";

export interface PeerToJudge extends Presented {
  /** Wall clock, of the handshake where that was before. */
  readonly nowMs: number;
  /**
   * Wall clock of now where {@link nowMs} was before: a CA certificate or a revocation list that was made
   * since is not one of the future. Nothing is judged by having expired since the handshake.
   */
  readonly presentMs?: number;
  readonly usage: Usage;
}

export interface ChainOptions extends PeerToJudge {
  readonly roots: readonly Certificate[];
  /** Lower case. */
  readonly trustDomains: readonly string[];
  /** CA certificates must name one of the trust domains, too. */
  readonly strictSpiffeChain: boolean;
}

export interface TrustedPeer {
  readonly kind: "trusted";
  /** Of a Consul service. `undefined`: the peer is none, or nothing vouches for its saying so. */
  readonly id: ServiceId | undefined;
  /**
   * The one URI name; a SPIFFE id in canonical spelling (Consul's, of a service), so that it can be
   * compared as text. `""`: there is none, or several. Only a claim where the peer is not `verified`.
   */
  readonly uri: string;
  /** Where there are several URI names: who it would be by each. Nothing is allowed for one of them. */
  readonly claims?: readonly Pick<TrustedPeer, "id" | "uri">[];
  /** For people: the URI, else the first DNS name, else `certificate <serial>`. */
  readonly name: string;
  /** False: the chain did not hold, and the rules let such peers in (`acceptUntrusted`). */
  readonly verified: boolean;
  /** As Consul writes it. */
  readonly serial: string;
  /** When everything the verdict rests on is valid; both ends belong to it. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** Consul's id of the root that vouches; `""` where none does. */
  readonly rootId: string;
}

export interface UntrustedPeer {
  readonly kind: "untrusted";
  /** The leaf itself, or what should link it to a root. */
  readonly code: "identity_invalid" | "chain_untrusted";
  readonly reason: string;
}

export type ChainVerdict = TrustedPeer | UntrustedPeer;

/** Judges a peer; never throws for anything the peer sent. */
export function judgeChain(options: ChainOptions): ChainVerdict {
  const { presented, roots, nowMs, presentMs = nowMs, usage, trustDomains } = options;
  if (presentedBytes(options) > PRESENTED_LIMIT_BYTES) {
    return refuseChain(`it presented more than ${PRESENTED_LIMIT_BYTES} bytes of certificates`);
  }
  const leaf = parseOrRefuse(options.leaf);
  if (leaf instanceof ProxyError) return refuseLeaf(leaf.message);
  const fault = leafFault(leaf, options);
  if (fault !== undefined) return refuseLeaf(fault);
  const identity = identityOf(leaf, trustDomains);
  if (identity.kind === "refused") return refuseLeaf(identity.reason);
  const path = findPath({
    leaf,
    presented: parsePresented(presented),
    roots,
    nowMs,
    presentMs,
    usage,
    ...options.strictSpiffeChain && { spiffeTrustDomains: trustDomains },
  });
  if (path.kind === "none") return refuseChain(path.reason + moreThanCounts(presented));
  const root = path.certificates[path.certificates.length - 1];
  if (!root) return refuseChain("the path is empty");
  return {
    kind: "trusted",
    ...identity.peer,
    name: identity.peer.uri,
    verified: true,
    serial: leaf.serial,
    notBeforeMs: Math.max(...path.certificates.map((certificate) => certificate.notBeforeMs)),
    notAfterMs: Math.min(...path.certificates.map((certificate) => certificate.notAfterMs)),
    rootId: fingerprintOf(root),
  };
}

/** What disqualifies a leaf whoever issued it, or `undefined`. */
export function leafFault(
  leaf: Certificate,
  { nowMs, usage }: { readonly nowMs: number; readonly usage: Usage },
): string | undefined {
  if (leaf.basicConstraints?.ca) return "its certificate is a CA";
  const [unknown] = leaf.notUnderstood;
  if (unknown) return `its certificate has an extension that is not understood (${unknown})`;
  const fault = validityFault(leaf, nowMs) ?? keyFault(leaf);
  if (fault !== undefined) return `its certificate ${fault}`;
  if (allowsKeyUsage(leaf, "digitalSignature") === false) {
    return "its certificate's key usage lacks digitalSignature";
  }
  if (allowsKeyUsage(leaf, "keyCertSign") || allowsKeyUsage(leaf, "cRLSign")) {
    return "its certificate's key usage is that of a CA";
  }
  const needed = usage === "client" ? OID.clientAuth : OID.serverAuth;
  if (!leaf.extendedKeyUsage?.includes(needed)) {
    return `its certificate's extended key usage lacks ${usage}Auth`;
  }
  return undefined;
}

export type LeafIdentity =
  | {
    readonly kind: "service";
    readonly peer: { readonly id: ServiceId; readonly uri: string };
  }
  | { readonly kind: "refused"; readonly reason: string };

/** The one service id of a leaf. `trustDomains` are lower case. */
export function identityOf(leaf: Certificate, trustDomains: readonly string[]): LeafIdentity {
  const [uri, second] = leaf.sanUris;
  if (uri === undefined) return refuseIdentity("its certificate has no URI alternative name");
  if (second !== undefined) return refuseIdentity("its certificate has two or more URI names");
  const parsed = parseServiceId(uri);
  if (parsed.kind === "refused") return refuseIdentity(`its SPIFFE id ${parsed.reason}`);
  const { id } = parsed;
  if (!trustDomains.includes(id.trustDomain)) {
    return refuseIdentity(`its trust domain is ${id.trustDomain}, which is not ours`);
  }
  return { kind: "service", peer: { id, uri: formatServiceId(id) } };
}

function refuseIdentity(reason: string): LeafIdentity {
  return { kind: "refused", reason };
}

export function refuseLeaf(reason: string): UntrustedPeer {
  return { kind: "untrusted", code: "identity_invalid", reason };
}

export function refuseChain(reason: string): UntrustedPeer {
  return { kind: "untrusted", code: "chain_untrusted", reason };
}
