/**
 * Credentials of a listener's or upstream's own as parts of a snapshot, without the store that would
 * bring them.
 *
 * @module
 */

import { NO_RULES, type PeerRules, type Validation } from "../../../src/identity/mod.ts";
import {
  type CertificatePart,
  MESH_KEY,
  type OwnCredentialsPart,
  type Snapshot,
  type ValidationPart,
} from "../../../src/snapshot/mod.ts";
import { withInbound } from "../engine/snapshots.ts";

/** Higher than those of snapshots made elsewhere in tests. */
let version = 1_000_000;

export function certificatePart(
  leaf: { readonly certPem: string; readonly keyPem: string },
  overrides: Partial<CertificatePart> = {},
): CertificatePart {
  return {
    version: ++version,
    name: "web",
    source: "file /web.pem",
    certPem: leaf.certPem,
    keyPem: leaf.keyPem,
    keyKind: "ecdsa",
    dnsNames: [],
    uris: [],
    serial: "01",
    notBeforeMs: Date.now() - 60_000,
    notAfterMs: Date.now() + 3_600_000,
    ...overrides,
  };
}

/** Any certificate of these roots, within `rules`. */
export function caValidation(
  roots: readonly { readonly rootPem: string }[],
  rules: Partial<PeerRules> = {},
): Validation {
  return {
    kind: "ca",
    rootPems: roots.map(({ rootPem }) => rootPem),
    rules: { ...NO_RULES, ...rules },
  };
}

function validationPart(validation: Validation): ValidationPart {
  return { version: ++version, name: "roots", source: "file /roots.pem", validation };
}

function ownPart(overrides: Partial<OwnCredentialsPart> = {}): OwnCredentialsPart {
  return {
    version: ++version,
    certificates: [MESH_KEY],
    validation: MESH_KEY,
    missing: [],
    requireClientCertificate: true,
    onDemand: null,
    defaultName: null,
    tls: null,
    trustDomains: [],
    ...overrides,
  };
}

export interface OwnOptions {
  readonly certificates?: Readonly<Record<string, CertificatePart>>;
  /** Absent: the mesh's; `null`: no validation. */
  readonly validation?: Validation | null;
  readonly own?: Partial<OwnCredentialsPart>;
}

/** `snapshot` with credentials of that key, which nothing refers to yet. */
export function withOwn<T extends Snapshot>(snapshot: T, key: string, place: OwnOptions = {}): T {
  const { certificates = {}, validation } = place;
  const names = Object.keys(certificates);
  const part = ownPart({
    ...names.length > 0 && { certificates: names },
    ...validation !== undefined && { validation: validation && `${key} validation` },
    ...place.own,
  });
  return {
    ...snapshot,
    version: ++version,
    certificates: { ...snapshot.certificates, ...certificates },
    validations: validation
      ? { ...snapshot.validations, [`${key} validation`]: validationPart(validation) }
      : snapshot.validations,
    ownCredentials: { ...snapshot.ownCredentials, [key]: part },
  };
}

/** `snapshot` whose public listener goes by these, `null` by the proxy's own. */
export function inboundBy<T extends Snapshot>(snapshot: T, credentials: string | null): T {
  if (!snapshot.inbound["inbound"]) {
    throw new Error("Cannot give credentials: there is no public listener");
  }
  return { ...withInbound(snapshot, { credentials }), version: ++version };
}

/** `snapshot` whose upstreams are dialled by these. */
export function upstreamsBy<T extends Snapshot>(snapshot: T, credentials: string | null): T {
  const changed = Object.values(snapshot.upstreams).map((part) =>
    [part.id, { ...part, version: ++version, credentials }] as const
  );
  return { ...snapshot, version: ++version, upstreams: Object.fromEntries(changed) };
}
