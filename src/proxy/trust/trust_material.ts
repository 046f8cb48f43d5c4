/** The credentials of one listener or upstream, gathered from the parts of a snapshot. @module */

import type { OnDemandRules, Validation } from "../../identity/mod.ts";
import {
  MESH_KEY,
  type OwnCredentialsPart,
  type Snapshot,
  type TlsDirection,
} from "../../snapshot/mod.ts";

export interface ShownCertificate {
  /** Identifies the content: another certificate, or another version, has another id. */
  readonly id: string;
  /** Name of the secret. */
  readonly name: string;
  readonly certPem: string;
  readonly keyPem: string;
  readonly dnsNames: readonly string[];
  readonly keyKind: "ecdsa" | "rsa" | "ed25519";
  readonly notAfterMs: number;
}

export interface PeerRulesInForce {
  /** Identifies the content. */
  readonly id: string;
  readonly generation: number;
  readonly validation: Validation;
  readonly serviceTrustDomains: readonly string[];
  readonly strictSpiffeChain: boolean;
}

export interface TrustMaterial {
  /** Changes exactly when anything else here does. */
  readonly id: string;
  readonly certificates: readonly ShownCertificate[];
  /** `null`: peers are not asked for a certificate. */
  readonly peers: PeerRulesInForce | null;
  /** Names of missing secrets. */
  readonly missing: readonly string[];
  readonly requireClientCertificate: boolean;
  readonly onDemand: OnDemandRules | null;
  readonly defaultName: string | null;
  readonly incoming: TlsDirection;
  readonly outgoing: TlsDirection;
  /** Identifies {@link incoming} and {@link outgoing}. */
  readonly tlsId: string;
}

/** `key`: a key of `ownCredentials`, or `null` for the proxy's own. `undefined`: there are none. */
export function trustMaterial(snapshot: Snapshot, key: string | null): TrustMaterial | undefined {
  const { tls } = snapshot;
  const own = key === null ? meshOnly(snapshot) : snapshot.ownCredentials[key];
  if (!own) return undefined;
  const missing = [...own.missing];
  const certificates: ShownCertificate[] = [];
  for (const name of own.certificates) {
    const shown = shownCertificate(snapshot, name);
    if (shown) certificates.push(shown);
    else missing.push(name);
  }
  const peers = own.validation === null ? null : peerRules(snapshot, own);
  if (peers === undefined) missing.push(own.validation ?? "");
  const tlsId = `${tls.version}/${own.tls ? own.version : 0}`;
  return {
    id: [own.version, tlsId, peers?.id, ...certificates.map(({ id }) => id)].join(" "),
    certificates,
    peers: peers ?? null,
    missing,
    requireClientCertificate: own.requireClientCertificate,
    onDemand: own.onDemand,
    defaultName: own.defaultName,
    incoming: own.tls ?? tls.incoming,
    outgoing: own.tls ?? tls.outgoing,
    tlsId,
  };
}

/** The proxy's own credentials in the shape of a listener's. */
function meshOnly(snapshot: Snapshot): OwnCredentialsPart | undefined {
  if (!snapshot.credentials) return undefined;
  return {
    version: 0,
    certificates: [MESH_KEY],
    validation: MESH_KEY,
    missing: [],
    requireClientCertificate: true,
    onDemand: null,
    defaultName: null,
    tls: null,
    trustDomains: snapshot.credentials.trustDomains,
  };
}

function shownCertificate(
  { credentials, certificates }: Snapshot,
  key: string,
): ShownCertificate | undefined {
  const part = key === MESH_KEY
    ? credentials && { ...credentials, name: key, dnsNames: [], keyKind: "ecdsa" as const }
    : certificates[key];
  return part ? { ...part, id: `${key}@${part.version}` } : undefined;
}

/** `undefined`: the secret is missing. */
function peerRules(
  { credentials, validations, tls: { strictSpiffeChain } }: Snapshot,
  { validation: key, trustDomains }: OwnCredentialsPart,
): PeerRulesInForce | undefined {
  const part = key === MESH_KEY ? credentials : validations[key ?? ""];
  if (!part) return undefined;
  const validation: Validation = "validation" in part
    ? part.validation
    : { kind: "mesh", rootPems: part.rootPems, trustDomains: part.trustDomains };
  const strict = strictSpiffeChain ? "strict" : "";
  return {
    id: `${key}@${part.version}${strict} ${trustDomains.join(",")}`,
    generation: part.version,
    validation,
    serviceTrustDomains: trustDomains,
    strictSpiffeChain,
  };
}
