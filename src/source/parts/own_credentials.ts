/**
 * The contents of the secret store as parts of a snapshot. A listener or upstream whose credentials are
 * still on their way keeps those it had; one that never had any is named, so that it stays closed.
 *
 * @module
 */

import type { HeldSecrets } from "../../secrets/mod.ts";
import {
  type CertificatePart,
  type Content,
  keepPart,
  MESH_KEY,
  type OwnCredentialsPart,
  type Refusal,
  type Snapshot,
  type ValidationPart,
} from "../../snapshot/mod.ts";

/** The previous snapshot and the version of the new one, for each part of it that is made. */
export interface PartContext {
  readonly previous: Snapshot | undefined;
  readonly version: number;
  /** Refused settings are added. */
  readonly refused: Refusal[];
}

interface OwnCredentialsInput extends Omit<PartContext, "refused"> {
  readonly held: HeldSecrets;
  /** Keys of credentials that listeners and upstreams refer to. */
  readonly wanted: readonly string[];
  /** Trust domains of the mesh, in lower case. */
  readonly trustDomains: readonly string[];
}

export interface OwnCredentials
  extends Pick<Snapshot, "certificates" | "validations" | "ownCredentials"> {
  /** By key of credentials that are waited for: the names of their secrets. */
  readonly warming: ReadonlyMap<string, readonly string[]>;
}

interface Parts {
  readonly certificates: Record<string, CertificatePart>;
  readonly validations: Record<string, ValidationPart>;
  readonly ownCredentials: Record<string, OwnCredentialsPart>;
}

export const NOTHING_HELD: HeldSecrets = { certificates: {}, validations: {}, credentials: {} };

export function ownCredentials(input: OwnCredentialsInput): OwnCredentials {
  const { held, wanted, trustDomains, previous, version } = input;
  const parts: Parts = { certificates: {}, validations: {}, ownCredentials: {} };
  const warming = new Map<string, readonly string[]>();
  for (const key of wanted) {
    const state = held.credentials[key];
    if (state?.kind !== "open") {
      warming.set(key, state?.waitingFor ?? []);
      const old = previous?.ownCredentials[key];
      if (previous && old) carryOver(previous, { key, own: old, parts });
      continue;
    }
    const content: Content<OwnCredentialsPart> = {
      certificates: state.certificates,
      validation: state.validation,
      missing: state.missing,
      requireClientCertificate: state.requireClientCertificate,
      onDemand: state.onDemand,
      defaultName: state.defaultName ?? null,
      tls: state.tls ?? null,
      trustDomains,
    };
    parts.ownCredentials[key] = keepPart(previous?.ownCredentials[key], content, version);
    for (const name of state.certificates) {
      const secret = held.certificates[name];
      if (!secret) continue;
      const { type: _, ...value } = secret.value;
      const certificate = { ...value, name: secret.name, source: secret.source };
      parts.certificates[name] ??= keepPart(previous?.certificates[name], certificate, version);
    }
    const secret = state.validation === null ? undefined : held.validations[state.validation];
    if (!secret || state.validation === null) continue;
    parts.validations[state.validation] ??= keepPart(previous?.validations[state.validation], {
      name: secret.name,
      source: secret.source,
      validation: secret.value.validation,
    }, version);
  }
  return { ...parts, warming };
}

/** May a listener with these credentials open? No snapshot is made before the proxy's own are there. */
export function isOpen(key: string | null, own: Pick<OwnCredentials, "ownCredentials">): boolean {
  return key === null || own.ownCredentials[key] !== undefined;
}

/**
 * The credentials key that a listener or upstream uses now: `wanted` as soon as its secrets are there,
 * until then the previous one. `undefined`: none, it stays closed.
 */
export function keyInForce(
  wanted: string | null | "refused",
  old: { readonly credentials: string | null } | null | undefined,
  own: Pick<OwnCredentials, "ownCredentials">,
): string | null | undefined {
  if (wanted !== "refused" && isOpen(wanted, own)) return wanted;
  return old && isOpen(old.credentials, own) ? old.credentials : undefined;
}

/** One line for each key whose secrets are awaited. */
export function warmingShown({ warming }: OwnCredentials): readonly string[] {
  return [...warming].map(([key, names]) => `secrets of ${key} (${names.join(", ")})`);
}

function carryOver(
  previous: Snapshot,
  { key, own, parts }: {
    readonly key: string;
    readonly own: OwnCredentialsPart;
    readonly parts: Parts;
  },
): void {
  parts.ownCredentials[key] = own;
  for (const name of own.certificates) {
    const part = previous.certificates[name];
    if (part) parts.certificates[name] ??= part;
  }
  const { validation } = own;
  if (validation === null || validation === MESH_KEY) return;
  const part = previous.validations[validation];
  if (part) parts.validations[validation] ??= part;
}
