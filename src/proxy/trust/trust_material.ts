/**
 * The credentials of one listener or upstream, gathered from the parts of a snapshot that they refer to.
 *
 * @module
 */

import type { OnDemandRules, Validation } from "../../identity/mod.ts";
import {
  type CredentialsPart,
  MESH_KEY,
  type OwnCredentialsPart,
  type Snapshot,
  type TlsDirection,
} from "../../snapshot/mod.ts";

/** A certificate that we may show. */
export interface ShownCertificate {
  /** Of its content: another certificate, or another version of it, has another. */
  readonly id: string;
  /** The secret's. */
  readonly name: string;
  readonly certPem: string;
  readonly keyPem: string;
  readonly dnsNames: readonly string[];
  readonly keyKind: "ecdsa" | "rsa" | "ed25519";
  readonly notAfterMs: number;
}

/** Whom we accept. */
export interface PeerRulesInForce {
  /** Of its content. */
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
  /** `null`: nobody is asked for a certificate. */
  readonly peers: PeerRulesInForce | null;
  /** Secrets that are not there. */
  readonly missing: readonly string[];
  readonly requireClientCertificate: boolean;
  readonly onDemand: OnDemandRules | null;
  readonly defaultName: string | null;
  readonly incoming: TlsDirection;
  readonly outgoing: TlsDirection;
  /** Of {@link incoming} and {@link outgoing}. */
  readonly tlsId: string;
}

/** `key`: of `ownCredentials`, or `null` for the proxy's own; undefined: there are none such. */
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

function meshValidation({ rootPems, trustDomains }: CredentialsPart): Validation {
  return { kind: "mesh", rootPems, trustDomains };
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

/** `undefined`: wanted, and not there. */
function peerRules(
  { credentials, validations, tls: { strictSpiffeChain } }: Snapshot,
  { validation: key, trustDomains }: OwnCredentialsPart,
): PeerRulesInForce | undefined {
  const part = key === MESH_KEY
    ? credentials && { version: credentials.version, validation: meshValidation(credentials) }
    : validations[key ?? ""];
  if (!part) return undefined;
  const strict = strictSpiffeChain ? "strict" : "";
  return {
    id: `${key}@${part.version}${strict} ${trustDomains.join(",")}`,
    generation: part.version,
    validation: part.validation,
    serviceTrustDomains: trustDomains,
    strictSpiffeChain,
  };
}
